"""Answers are judged by the grammar or by math-verify, and can do nothing else."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from entrometer.errors import InvalidValue
from entrometer.tasks import (
    Verifier,
    VerifierUnavailable,
    verify,
    verify_many,
    verify_number,
)
from entrometer.tasks import verifier_process as process_module

BAD_WORKER = Path(__file__).with_name("bad_worker.py")

# References by the grammar of numbers first, then those that math-verify reads.
RIGHT = [
    ("18", "18"),
    ("18", "$18"),
    ("18", "18 dollars"),
    ("18", r"\boxed{18}"),
    ("18", "$x = 18$"),
    ("1234", "1,234"),
    ("1/2", "0.5"),
    ("0.5", r"\frac{1}{2}"),
    ("9", "9%"),
    ("9%", "9"),
    ("14 + 4", "18"),
    ("36/2", "18"),
    (r"$\sqrt{2}$", r"$\frac{2}{\sqrt{2}}$"),
    ("$2x$", "$x + x$"),
    ("$x^2 - 1$", "$(x - 1)(x + 1)$"),
    (r"$\{1, 2\}$", r"$\{2, 1\}$"),
]
WRONG = [
    ("18", "-18"),
    ("18", "18.1"),
    ("18", ""),
    ("18", "14 + 4"),
    ("18", r"\frac{36}{2}"),
    ("18", "18 or 19"),
    ("1/2", "1/3"),
    ("0.333333", "1/3"),
    ("0.09", "9%"),
    ("14 + 4", "19"),
    ("$2x$", "2"),
    ("$2x$", "2 dollars"),
    ("$x^2 - 1$", "$(x - 1)^2$"),
]
# A reference that is no number, so that the worker is asked.
EXPRESSION = "$x^2$"
# Within the limits of size, and without end in math-verify.
ENDLESS = "$99999!!$"


@pytest.fixture(scope="module")
def verifier():
    with Verifier() as verifier:
        yield verifier


@pytest.fixture
def bad(monkeypatch):
    """A verifier whose worker does what its answers say."""
    monkeypatch.setattr(process_module, "WORKER", BAD_WORKER)
    with Verifier(seconds=0.5) as verifier:
        yield verifier


def worker(verifier: Verifier) -> int:
    assert verifier._process is not None
    return verifier._process.pid


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ends(pid: int, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)


@pytest.mark.parametrize(("reference", "answer"), RIGHT)
def test_right_answers_in_any_notation(verifier, reference, answer):
    assert verifier.verify(reference, answer)


@pytest.mark.parametrize(("reference", "answer"), WRONG)
def test_wrong_answers(verifier, reference, answer):
    assert not verifier.verify(reference, answer)


def test_a_batch_is_its_pairs():
    assert verify_many(RIGHT[:4] + WRONG[:4]) == [True] * 4 + [False] * 4
    assert verify(*RIGHT[5])
    assert verify_many([]) == []


def test_a_task_of_numbers_refuses_a_reference_that_is_none():
    assert verify_number("1234.5", "$1,234.50 a day")
    assert not verify_number("18", "14 + 9 - 5")
    for reference in ["$x^2$", "18 dollars", "36/2", "blue", ""]:
        with pytest.raises(InvalidValue, match="got something else than a number"):
            verify_number(reference, "18")
    with pytest.raises(InvalidValue, match="300 characters"):
        verify_number("1" * 300, "18")


def test_the_order_of_answers_does_not_matter(verifier):
    pairs = [(pair, True) for pair in RIGHT] + [(pair, False) for pair in WRONG]
    for seed in range(3):
        random.Random(seed).shuffle(pairs)
        verdicts = verifier.verify_many([pair for pair, _ in pairs])
        assert verdicts == [expected for _, expected in pairs]


def test_many_threads_at_once(verifier):
    pairs = (RIGHT + WRONG) * 2
    with ThreadPoolExecutor(16) as pool:
        verdicts = list(pool.map(lambda pair: verifier.verify(*pair), pairs))
    assert verdicts == ([True] * len(RIGHT) + [False] * len(WRONG)) * 2


def test_an_endless_answer_is_ended_on_time_and_the_rest_of_its_batch_is_judged():
    seconds = []

    def judge():
        start = time.monotonic()
        verdicts.extend(
            verifier.verify_many(
                [(EXPRESSION, "$x^2$"), (EXPRESSION, ENDLESS), (EXPRESSION, "$xx$")]
            )
        )
        seconds.append(time.monotonic() - start)

    verdicts: list[bool] = []
    with Verifier(seconds=0.5) as verifier:
        assert verifier.verify(EXPRESSION, "$x^2$")
        before = worker(verifier)
        thread = threading.Thread(target=judge)
        thread.start()
        thread.join()
        assert verdicts == [True, False, True]
        assert 0.5 <= seconds[0] < 2.0
        assert worker(verifier) == before


def test_numbers_and_refused_text_start_no_process():
    with Verifier(length=20) as verifier:
        assert verifier.verify("1234", "The answer is 1,234.")
        assert not verifier.verify("1234", "$99999!!$")
        assert not verifier.verify("1234", "1234" + " " * 17)
        assert not verifier.verify("1234", "12\x0034")
        assert not verifier.verify(EXPRESSION, "9^{9^9}")
        assert not verifier.verify(EXPRESSION, "x" * 21)
        assert verifier._process is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("blue", "math-verify reads in 'blue'"),
        ("", "math-verify reads in ''"),
        ("1" * 300, "300 characters"),
        ("1\x00", r"U\+0000.*in '1\\x00'"),
        ("$9^{9^9}$", "a power in an exponent"),
    ],
)
def test_a_reference_that_no_answer_can_equal_is_an_error(verifier, reference, message):
    with pytest.raises(InvalidValue, match=f"expected a reference.*{message}"):
        verifier.verify(reference, "x")


@pytest.mark.parametrize(
    "settings",
    [
        {"seconds": 0.0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"memory_mib": 64},
        {"length": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(InvalidValue, match=f"got .*{next(iter(settings))}="):
        Verifier(**settings)


def test_a_killed_worker_is_replaced(bad):
    assert bad.verify(EXPRESSION, "right")
    first = worker(bad)
    os.kill(first, signal.SIGKILL)
    assert bad.verify(EXPRESSION, "right")
    assert worker(bad) != first


def test_a_silent_worker_is_killed_and_replaced(monkeypatch, bad):
    monkeypatch.setattr(process_module, "_REPLY_SECONDS", 0.1)
    assert bad.verify(EXPRESSION, "right")
    first = worker(bad)
    os.kill(first, signal.SIGSTOP)
    assert bad.verify(EXPRESSION, "right")
    assert worker(bad) != first
    assert not is_running(first)


def test_a_closed_verifier_ends_its_worker_and_may_be_used_again(bad):
    for _ in range(2):
        with bad:
            assert bad.verify(EXPRESSION, "right")
            first = worker(bad)
        assert not is_running(first)
        assert bad._process is None
    bad.close()


@pytest.mark.parametrize("what", ["spin", "sleep", "die", "raise", "hoard", "nonsense"])
def test_a_judge_that_fails_says_no_and_its_worker_goes_on(bad, what):
    assert bad.verify(EXPRESSION, "right")
    before = worker(bad)
    assert not bad.verify(EXPRESSION, what)
    assert bad.verify(EXPRESSION, "right")
    assert worker(bad) == before


def test_no_answer_changes_how_the_next_is_judged(bad):
    """All that a judge can reach in its memory is a copy that dies with it."""
    for answer in ["poison", "wrong", "poison", "poison", "wrong"]:
        assert not bad.verify(EXPRESSION, answer)
    assert bad.verify(EXPRESSION, "right")


def test_what_a_judge_prints_or_writes_is_no_reply(bad):
    for answer in ["forge", "wrong", "forge", "forge", "wrong"]:
        assert not bad.verify(EXPRESSION, answer)
    assert bad.verify(EXPRESSION, "right")


def test_what_a_judge_starts_is_ended_with_it(bad, tmp_path):
    if os.getuid():
        pytest.skip("only root may fork over the limit of processes")
    assert bad.verify(EXPRESSION, f"child {tmp_path}")
    [left] = tmp_path.iterdir()
    assert ends(int(left.name))


def test_an_answer_that_found_the_machine_busy_is_judged_again(bad, tmp_path):
    assert bad.verify(EXPRESSION, f"sleep-once {tmp_path / 'mark'}")
    assert (tmp_path / "mark").exists()


def test_a_worker_that_cannot_stay_alive_is_an_error_and_no_verdict(bad):
    assert bad.verify(EXPRESSION, "right")
    with pytest.raises(VerifierUnavailable, match=r"got none twice .*channel"):
        bad.verify(EXPRESSION, "kill-worker")
    assert bad.verify(EXPRESSION, "right")


def test_the_environment_stays_here(bad, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    assert not bad.verify(EXPRESSION, "environment SECRET_TOKEN")
    assert bad.verify(EXPRESSION, "environment PYTHONHASHSEED")


@pytest.mark.parametrize(
    "reply",
    [
        b'{"id": 2, "verdict": "equal"}',
        b'{"id": 1, "verdict": "surely"}',
        b'{"id": 1, "verdict": "equal", "more": 1}',
        b'{"id": 1}',
        b"[" * 10_000,
        b"\xff\xfe",
        b"1",
        None,
    ],
)
def test_a_reply_that_is_not_the_expected_one_is_no_verdict(
    monkeypatch, tmp_path, reply
):
    frame = (
        (2**30).to_bytes(4, "big")
        if reply is None
        else len(reply).to_bytes(4, "big") + reply
    )
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import socket, sys\n"
        "from entrometer.tasks.verifier_worker import receive, send\n"
        "channel = socket.socket(fileno=int(sys.argv[1]))\n"
        "receive(channel)\n"
        "send(channel, {'ready': True})\n"
        "receive(channel)\n"
        f"channel.sendall({frame!r})\n"
    )
    monkeypatch.setattr(process_module, "WORKER", worker)
    with Verifier() as verifier, pytest.raises(VerifierUnavailable, match="twice"):
        verifier.verify(EXPRESSION, "$x^2$")


@pytest.mark.parametrize(("source", "code"), [("raise SystemExit(3)", 3), ("def", 1)])
def test_a_worker_that_does_not_start_is_told(monkeypatch, tmp_path, source, code):
    (tmp_path / "worker.py").write_text(source)
    monkeypatch.setattr(process_module, "WORKER", tmp_path / "worker.py")
    with (
        Verifier() as verifier,
        pytest.raises(VerifierUnavailable, match=f"start, got .*exit code {code}"),
    ):
        verifier.verify(EXPRESSION, "$x^2$")


def test_a_missing_package_is_told_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with Verifier() as verifier:
        with pytest.raises(VerifierUnavailable, match=r"'entrometer\[tasks\]'"):
            verifier.verify(EXPRESSION, "$x^2$")
        assert verifier.verify("18", "18")


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_a_worker_of_its_own(bad):
    """Also where a thread held the lock at the time of the fork."""
    assert bad.verify(EXPRESSION, "right")
    receiver, sender = os.pipe()
    with bad._lock:
        child = os.fork()
        if not child:
            try:
                right = bad.verify(EXPRESSION, "right")
                os.write(sender, f"{right} {worker(bad)}".encode())
                bad.close()
            finally:
                os._exit(0)
    os.close(sender)
    with open(receiver) as pipe:
        right, theirs = pipe.read().split()
    os.waitpid(child, 0)
    assert right == "True"
    assert int(theirs) != worker(bad)
    assert not is_running(int(theirs))
    assert is_running(worker(bad))
    assert bad.verify(EXPRESSION, "right")


def run(source: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )


@pytest.mark.parametrize("leave", ["", "import os; os._exit(0)"])
def test_no_worker_outlives_its_owner(leave):
    done = run(
        "from entrometer.tasks import verifier\n"
        "print(verifier.verify('$x$', '$x$'), verifier._SHARED._process.pid, "
        f"flush=True)\n{leave}"
    )
    right, pid = done.stdout.split()
    assert (right, done.stderr) == ("True", "")
    assert ends(int(pid))


def test_the_room_and_the_verifier_import_nothing_heavy(tmp_path):
    """Nor anything that lies about in the working directory."""
    (tmp_path / "math_verify.py").write_text("raise RuntimeError('shadowed')")
    done = run(
        "import sys, entrometer.tasks as tasks\n"
        "tasks.verify('$x$', '$x$')\n"
        "heavy = {'torch', 'transformers', 'sympy', 'math_verify', 'pyarrow'}\n"
        "print(sorted(heavy & set(sys.modules)))",
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
