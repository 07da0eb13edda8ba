"""The built documentation in Chromium: errors, requests, width, contrast, pictures.

Run `make docs` first. Every page of the site, and the report pages in its gallery, is
loaded twice: in light colours at 1,100 pixels, and in dark ones at 400.
"""

import tempfile
from pathlib import Path

from benchmarks.harness import Check, Report
from benchmarks.report.chromium import Browser, Opened, visit
from entrometer.errors import InvalidValue

SITE = Path(__file__).parents[1] / "docs/_build/html"
LOOKS = ((1100, False), (400, True))
SECONDS = 1800
"""Most that the browser may take for all pages."""

QUESTION = r"""(() => {
  const root = document.documentElement;
  const parse = (c) => {
    const m = c.match(/rgba?\(([^)]+)\)/);
    if (!m) return null;
    const p = m[1].split(/[ ,\/]+/).map(Number);
    return [p[0], p[1], p[2], p.length > 3 ? p[3] : 1];
  };
  const over = (top, under) => {
    const a = top[3];
    return [0, 1, 2].map((i) => a * top[i] + (1 - a) * under[i]).concat(1);
  };
  const light = (c) => {
    const f = c.slice(0, 3).map((v) => {
      v /= 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2];
  };
  const canvas = matchMedia('(prefers-color-scheme: dark)').matches
    && getComputedStyle(root).colorScheme.includes('dark') ? [18, 18, 18, 1]
    : [255, 255, 255, 1];
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.backgroundImage !== 'none') return null;
      const c = parse(style.backgroundColor);
      if (c && c[3] > 0) layers.push(c);
      if (c && c[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), canvas);
  };
  const shown = (e) => {
    if (!e.getClientRects().length) return false;
    for (; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.visibility === 'hidden' || style.opacity === '0') return false;
    }
    return true;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const faint = [];
  const seen = new Set();
  let texts = 0;
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(e) || e.closest('svg')) continue;
    seen.add(e);
    if (!shown(e)) continue;
    const style = getComputedStyle(e);
    const ground = behind(e);
    const colour = parse(style.color);
    if (!ground || !colour) continue;
    texts += 1;
    const [a, b] = [light(over(colour, ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      faint.push(`${ratio.toFixed(2)} ${e.localName}.${e.className}: `
        + walker.currentNode.data.trim().slice(0, 40));
    }
  }
  const named = (e) => e.getAttribute('aria-label') || e.getAttribute('alt')
    || e.getAttribute('aria-labelledby') || e.querySelector?.(':scope > title');
  const quiet = (e) => e.closest('[aria-hidden=true], button, label, a, symbol, defs')
    || e.getAttribute('role') === 'presentation';
  const pictures = [...document.querySelectorAll('img, svg, canvas')]
    .filter((e) => !e.parentElement.closest('svg'));
  const nameless = pictures
    .filter((e) => e.localName === 'img' ? !e.getAttribute('alt') && !quiet(e)
      : shown(e) && !named(e) && !quiet(e))
    .map((e) => e.outerHTML.slice(0, 80));
  const unloaded = [...document.images].filter((e) => !e.complete || !e.naturalWidth)
    .map((e) => e.src);
  const within = new Set([...document.querySelectorAll('[id]')].map((e) => e.id));
  const lost = [...document.querySelectorAll('a[href^="#"]')]
    .map((e) => decodeURIComponent(e.getAttribute('href').slice(1)))
    .filter((name) => name && !within.has(name));
  return {
    overflow: root.scrollWidth - root.clientWidth, texts, faint, nameless, unloaded,
    pictures: pictures.length, lost, formulas: document.querySelectorAll('math').length,
  };
})()"""


CONTROL = """<!doctype html><html><body style="background: #fff">
<p style="color: #999">faint</p><p style="color: #767676">not faint</p>
<div style="width: 3000px">wide</div><img src="missing.png"><svg width="9" height="9">
</svg><a href="#nowhere">lost</a><script>console.log("said")</script>
<img alt="a picture" src="https://elsewhere.invalid/x.png"></body></html>"""
"""A page with a fault of each kind: a check that finds none would pass the site."""


def run() -> Report:
    pages = sorted(SITE.rglob("*.html"))
    if not pages:
        raise InvalidValue(
            f"{SITE}: expected the built site, got none; run `make docs`"
        )
    found: list[tuple[str, Opened]] = []
    with tempfile.TemporaryDirectory() as profile, Browser(profile, SECONDS) as browser:
        control = Path(profile, "control.html")
        control.write_text(CONTROL, encoding="utf-8")
        opened = visit(browser, control, QUESTION, width=400)
        of_control = _faults([("control", opened)], profile)
        for page in pages:
            for width, dark in LOOKS:
                opened = visit(
                    browser, page, QUESTION, width=width, dark=dark, settle=0.3
                )
                name = f"{page.relative_to(SITE)} at {width}"
                found.append((name, opened))
    lists = _faults(found, SITE.as_uri())
    return Report(
        [
            Check("site.pages", len(pages), at_least=50),
            *(
                Check(f"site.control.{name}", len(faults), at_least=1)
                for name, faults in of_control.items()
            ),
            Check(
                "site.texts", sum(o.answer["texts"] for _, o in found), at_least=10000
            ),
            Check(
                "site.pictures",
                sum(o.answer["pictures"] for _, o in found),
                at_least=50,
            ),
            Check(
                "site.formulas",
                sum(o.answer["formulas"] for _, o in found),
                at_least=100,
            ),
            *(
                Check(f"site.{name}", len(found), at_most=0)
                for name, found in lists.items()
            ),
        ],
        {name: faults[:40] for name, faults in lists.items()},
    )


def _faults(found: list[tuple[str, Opened]], inside: str) -> dict[str, list[str]]:
    """Return what is wrong with pages, by kind; requests `inside` are not."""

    def all_of(key: str) -> list[str]:
        return [f"{name}: {x}" for name, o in found for x in o.answer[key]]

    def told(o: Opened) -> list[str]:
        # A page is loaded from a file; what is not there is counted below.
        return [*o.messages, *(x for x in o.log if "ERR_FILE_NOT_FOUND" not in x)]

    return {
        "console_messages": [f"{name}: {m}" for name, o in found for m in told(o)],
        "requests_elsewhere": [
            f"{name}: {u}" for name, o in found for u in o.requests if inside not in u
        ],
        "pages_too_wide": [
            f"{name}: {o.answer['overflow']} pixels"
            for name, o in found
            if o.answer["overflow"] > 0
        ],
        "texts_of_low_contrast": all_of("faint"),
        "pictures_without_text": all_of("nameless"),
        "pictures_not_loaded": all_of("unloaded"),
        "links_to_nothing_on_the_page": all_of("lost"),
    }
