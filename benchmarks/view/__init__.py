"""The server of runs: a thousand in a second, nothing for others, nothing to others."""

import re
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Check, Report
from benchmarks.report.chromium import Opened, open_page
from benchmarks.report.synthetic import KINDS
from benchmarks.view.made import PLANTED, SECRET, leaving, make_runs
from benchmarks.view.requests import hostile_requests
from benchmarks.view.serving import Answer, serving
from entrometer.view.index import Index

RUNS = 1000
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root, cache = make_runs(Path(folder, "runs"), RUNS), Path(folder, "cache")
        scans = [_first_scan(root) for _ in range(3)]
        with serving(root, cache) as server:
            lists = [server.ask() for _ in range(3)]
            filters = [server.ask("?words=measurement+tiny&kind=measure")]
            ids = dict(_ids(lists[0].body))
            measured, trained, other = (
                ids[name]
                for name in ("measurement-0000", "training-0000", "training-0500")
            )
            first = server.ask(f"runs?run={measured}")
            drawn = server.drawn(f"runs?run={measured}")
            both = f"runs?run={trained}&run={other}"
            compared = server.drawn(both)
            pages = [server.ask(path) for path in (f"runs?run={measured}", both)]
            requests = list(hostile_requests(server, measured))
            planted = f"runs?run={ids['hostile-0000']}"
            unknown = next(i for name, i in ids.items() if "script" in name)
            odd = (planted, f"runs?run={unknown}")
            bodies = [server.drawn(path).body for path in odd]
            opened = [
                open_page(server.url + path, OVERFLOW, width=width)
                for path in (
                    "",
                    "?words=script",
                    f"runs?run={measured}",
                    both,
                    *odd,
                )
                for width in (1100, 400)
            ]
            origin = server.url.removesuffix(f"{server.token}/")
        with serving(root, cache) as again:
            later = again.ask(f"runs?run={measured}")
        leaked = _leaked(Path(folder, "links"), Path(folder, "outside"), cache)
    served = [name for name, answer in requests if answer.status == 200]
    away = [url for page in opened for url in page.requests if not _own(url, origin)]
    figures = [answer.body.count("<svg") for answer in (drawn, compared)]
    return Report(
        [
            Check("view.runs_listed", len(ids), at_least=RUNS, at_most=RUNS),
            Check("view.first_scan_processor_seconds", min(scans), at_most=1),
            Check("view.list_seconds", _least(lists), at_most=1),
            Check("view.filtered_list_seconds", _least(filters), at_most=1),
            Check("view.first_answer_seconds", first.seconds, at_most=1),
            Check("view.page_seconds", max(p.seconds for p in pages), at_most=1),
            Check("view.page_of_another_server_seconds", later.seconds, at_most=1),
            Check("view.figures_on_pages", min(figures), at_least=2),
            Check("view.later_page_is_drawn", later.body.count("<svg"), at_least=2),
            Check("view.hostile_requests", len(requests), at_least=60),
            Check("view.hostile_requests_served", len(served), at_most=0),
            Check("view.files_outside_shown", leaked, at_most=0),
            Check("view.planted_pages", sum(PLANTED in b for b in bodies), at_most=0),
            Check(
                "view.elements_of_hostile_names", _unescaped(lists[0].body), at_most=0
            ),
            Check("view.requests_leaving", len(away), at_most=0),
            Check("view.console_messages", sum(map(_spoken, opened)), at_most=0),
            Check("view.foreign_scripts", sum(map(_foreign, opened)), at_most=0),
            Check("view.navigations", max(p.navigations for p in opened), at_most=1),
            Check("view.overflow_pixels", max(p.answer for p in opened), at_most=0),
        ],
        {
            "seconds_until_the_server_answers": server.started,
            "seconds_to_draw_a_measurement": drawn.seconds,
            "seconds_to_draw_two_trainings": compared.seconds,
            "megabytes_of_the_list": len(lists[0].body.encode()) / 1e6,
            "served": served,
            "away": away[:5],
            "messages": [m for page in opened for m in page.messages + page.log][:5],
        },
    )


def _first_scan(root: Path) -> float:
    # Of the processor: it happens once, before the server answers.
    start = time.process_time()
    Index(root, KINDS).runs()
    return time.process_time() - start


def _ids(html: str) -> list[tuple[str, str]]:
    """Return name and id of every run of a list."""
    row = r'value="([0-9a-f]{16})" aria-label="Choose ([^"]*)"'
    return [(name, identity) for identity, name in re.findall(row, html)]


def _least(answers: list[Answer]) -> float:
    """Return the shortest of the times: other work on the machine lengthens them."""
    assert all(answer.status == 200 for answer in answers)
    return min(answer.seconds for answer in answers)


def _leaked(root: Path, outside: Path, cache: Path) -> int:
    """Return in how many answers a file outside the directory shows."""
    leaving(root, outside)
    with serving(root, cache) as server:
        answers = [server.ask()]
        ids = [identity for _, identity in _ids(answers[0].body)]
        answers += [server.drawn(f"runs?run={identity}") for identity in ids]
        together = "&".join(f"run={identity}" for identity in ids)
        answers.append(server.drawn(f"runs?{together}"))
    linked = sum("<svg" in answer.body for answer in answers)
    return linked + sum(SECRET in answer.body for answer in answers)


def _unescaped(html: str) -> int:
    """Return how many elements the list has that its template does not."""
    tags = re.findall(r"<([a-zA-Z]\w*)", html.split("</style>")[1])
    own = "a body button div footer form h1 head html i input label li main option p"
    return len({*tags} - {*own.split(), *["select", "span", "time", "ul"]})


def _own(url: str, origin: str) -> bool:
    return url.startswith(origin)


def _spoken(page: Opened) -> int:
    return len(page.messages) + len(page.log)


def _foreign(page: Opened) -> int:
    """Return how many scripts ran that are not the page's own."""
    own = ("which page of these runs is the newest",)
    return sum(not any(x in source for x in own) for source in page.sources)
