"""The site as people see it: every page in Chromium, wide and narrow, light and dark.

`make test-docs` builds the site and runs this. The pages are read from a small server on this
machine, and from the folder.
"""

from __future__ import annotations

import re
import threading
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from helpers.browser import chromium_in, contrast, fetched, needs_browser, scheme, wide
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
SOME = [
    "index.html", "start.html", "guides/false_alarms.html", "tutorials/digits.html", "methods.html",
    "methods/ctm.html", "paper.html", "guarantees.html", "api/index.html", "cli/fit.html",
    "choosing.html", "deploy.html",
]  # fmt: skip
PHONE, DESK = 390, 1200
SCHEMES = {"light": "default", "dark": "slate"}
COLOURS = [
    "md-typeset-a-color",
    *(f"figure-{name}" for name in ("ink", "soft", "known", "strange", "third")),
]
LEGIBLE = 4.5  # contrast that WCAG 2.2 asks of text
SMALLEST = 8.0  # pixels that letters of a figure have at least


def test_the_site_was_built():
    assert len(PAGES) >= 60, "run: make docs"
    assert set(SOME) <= set(PAGES)


# Without a browser


def ids_of(text):
    return set(re.findall(r'\b(?:id|name)="?([^"\s>]+)', text))


def test_every_link_and_every_place_within_the_site_is_there():
    texts = {name: (SITE / name).read_text(encoding="utf-8") for name in PAGES}
    places = {name: ids_of(text) for name, text in texts.items()}
    broken = []
    for name, text in texts.items():
        if name == "404.html":
            continue  # its links begin at the root, wherever it is shown
        for link in set(re.findall(r'\b(?:href|src)="?([^"\s>]+)', text)):
            target = resolved(name, link)
            if target is None:
                continue
            place, anchor = target
            if not (SITE / place).is_file():
                broken.append(f"{name}: {link}")
            elif anchor and place in places and anchor not in places[place]:
                broken.append(f"{name}: {link}, no such place")
    assert broken == []


def resolved(name, link):
    """Return the file and the place in it that a link of a page leads to; None if elsewhere."""
    link = unescape(link)
    if re.match(r"[a-z]+:|//", link):
        return None
    path, _, anchor = link.partition("#")
    target = (SITE / name).parent / unquote(path) if path else SITE / name
    return target.resolve().relative_to(SITE.resolve()).as_posix(), unquote(anchor)


def test_licences_of_what_is_not_ours_are_there():
    for package, words in {
        "katex": "The MIT License",
        "iframe-worker": "Permission is hereby",
    }.items():
        assert words in (SITE / f"assets/licences/{package}.txt").read_text(encoding="utf-8")


def test_every_name_of_the_api_shows_its_source():
    pages = [SITE / name for name in PAGES if name.startswith("api/") and name != "api/index.html"]
    assert len(pages) > 10
    for page in pages:
        text = page.read_text(encoding="utf-8")
        described = re.findall(
            r'class="doc doc-heading">\s*'
            r'<code class="doc-symbol doc-symbol-heading doc-symbol-(\w+)',
            text,
        )
        with_source = [kind for kind in described if kind in ("class", "function", "method")]
        assert described and text.count("Source code in") >= len(with_source), page.name


# In a browser


class Quiet(SimpleHTTPRequestHandler):
    """A server that says nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def host():
    """The address of a server of the site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium_in(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


# Text that leaves the screen although nothing there can be scrolled sideways.
OUTSIDE = """
const width = document.documentElement.clientWidth, found = [];
if (document.documentElement.scrollWidth > width + 1)
  found.push(`the page is ${document.documentElement.scrollWidth} wide`);
const scrolls = (element) => {
  for (; element; element = element.parentElement)
    if (/auto|scroll|hidden/.test(getComputedStyle(element).overflowX)) return true;
  return false;
};
for (const element of document.querySelectorAll('.md-content *')) {
  const box = element.getBoundingClientRect();
  if (box.width && (box.right > width + 1 || box.left < -1) && !scrolls(element.parentElement))
    found.push(`${element.tagName} ${element.className} ends at ${box.right}: ` +
      element.textContent.slice(0, 40));
}
return found.slice(0, 3);
"""
# Letters in figures that are too small to read.
TINY = """
const found = [];
for (const figure of document.querySelectorAll('svg.figure:not(.gallery *)')) {
  const scale = figure.getBoundingClientRect().width / figure.viewBox.baseVal.width;
  for (const text of figure.querySelectorAll('text')) {
    const size = parseFloat(getComputedStyle(text).fontSize) * scale;
    if (size < arguments[0]) found.push(`${text.textContent}: ${size.toFixed(1)} px`);
  }
}
return found.slice(0, 3);
"""


@needs_browser
@pytest.mark.parametrize(("width", "name"), [(DESK, "light"), (PHONE, "dark")])
def test_no_page_asks_elsewhere_complains_or_overflows(page, host, width, name):
    problems = []
    fetched(page)
    with wide(page, width), scheme(page, name):
        page.get_log("browser")
        for path in PAGES:
            page.get(host + path)
            away = [url for url in fetched(page) if not url.startswith((host, "data:", "blob:"))]
            said = [entry["message"] for entry in page.get_log("browser")]
            outside = page.execute_script(OUTSIDE)
            tiny = page.execute_script(TINY, SMALLEST)
            if away or said or outside or tiny:
                problems.append((path, away, said, outside, tiny))
    assert problems == []


@needs_browser
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_text_and_figures_are_legible(page, host, width, name):
    with wide(page, width), scheme(page, name):
        for path in SOME:
            page.get(host + path)
            body = page.find_element("css selector", "body")
            assert body.get_attribute("data-md-color-scheme") == SCHEMES[name]
            assert contrast(page, ".md-typeset p", "body") > LEGIBLE, path
            for colour in COLOURS:
                assert named_contrast(page, colour) > LEGIBLE, (path, colour)


def named_contrast(page, colour):
    """Return the contrast of a colour that has a name with the page."""
    page.execute_script(
        "let probe = document.getElementById('probe') || document.body.appendChild("
        "Object.assign(document.createElement('i'), {id: 'probe'}));"
        "probe.style.color = `var(--${arguments[0]})`;",
        colour,
    )
    return contrast(page, "#probe", "body")


@needs_browser
def test_formulas_are_typeset_with_fonts_of_the_site(page, host):
    page.get(host + "methods/ctm.html")
    fetched(page)
    page.get(host + "methods/ctm.html")
    assert page.find_elements("css selector", "div.formula .katex-html")
    loaded = page.execute_script(
        "return document.fonts.ready.then((fonts) => [...fonts]"
        ".filter((font) => font.status == 'loaded')"
        ".map((font) => font.family))"
    )
    assert "KaTeX_Math" in {family.strip('"') for family in loaded}
    assert any("/assets/katex/fonts/" in url for url in fetched(page))


@needs_browser
def test_the_switch_goes_from_light_to_dark_and_figures_follow(page, host):
    page.get(host + "start.html")
    page.execute_script("localStorage.clear()")
    with scheme(page, "light"):
        page.refresh()
        colours = []
        for _ in range(3):
            script = "return getComputedStyle(document.querySelector('svg.figure text')).fill"
            colours.append(page.execute_script(script))
            page.execute_script(
                "[...document.querySelectorAll('header label[for^=__palette]')]"
                ".find((label) => !label.hidden).click()"
            )
    page.execute_script("localStorage.clear()")
    assert len(set(colours)) == 2, "by the system, light, dark"


def search_finds(page, words, place):
    """Tell whether a search leads to a page, once the results are there."""
    field = page.find_element("css selector", ".md-search__input")
    page.execute_script("document.querySelector('.md-search__input').focus()")
    field.send_keys(words)
    script = (
        "return [...document.querySelectorAll('.md-search-result__link')]"
        ".some((link) => link.href.split(/[?#]/)[0] == arguments[0])"
    )
    return WebDriverWait(page, 30).until(lambda page: page.execute_script(script, place))


@needs_browser
def test_search_finds_a_method(page, host):
    page.get(host + "index.html")
    assert search_finds(page, "CTM", host + "methods/ctm.html")


@needs_browser
def test_pages_and_search_work_from_a_folder(page):
    fetched(page)
    page.get((SITE / "index.html").as_uri())
    assert search_finds(page, "virtual logit", (SITE / "methods/vim.html").as_uri())
    away = [url for url in fetched(page) if not url.startswith(("file:", "data:", "blob:"))]
    assert away == []


@needs_browser
def test_code_can_be_copied(page, host):
    page.get(host + "start.html")
    buttons = WebDriverWait(page, 30).until(
        lambda page: page.find_elements("css selector", ".md-code__button[data-md-type=copy]")
    )
    assert len(buttons) >= 5
