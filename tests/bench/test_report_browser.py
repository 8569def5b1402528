"""The report in a real Chromium.

The threshold moves, the numbers are right, and nothing leaves the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.browser import chromium_in, luminance, needs_browser, wide
from helpers.reports import copy, write_experiments, write_folder
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from typica.bench import tables_of, write_report
from typica.metrics import evaluate

pytestmark = needs_browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_folder(tmp_path_factory.mktemp("digits") / "result")
    write_experiments(made)
    return made


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium_in(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def page(chromium: webdriver.Chrome, folder: Path, tmp_path: Path) -> webdriver.Chrome:
    show(chromium, folder, tmp_path)
    return chromium


def show(chromium: webdriver.Chrome, folder: Path, tmp_path: Path) -> None:
    chromium.get(write_report(folder, tmp_path / "report.html").as_uri())


def choose(page: webdriver.Chrome, method: str, ood: str) -> None:
    Select(page.find_element(By.ID, "method")).select_by_visible_text(method)
    Select(page.find_element(By.ID, "ood")).select_by_visible_text(ood)


def set_threshold(page: webdriver.Chrome, value: float) -> None:
    """Put a number into the field at once: typing it redraws the page with every key."""
    field = page.find_element(By.ID, "threshold-number")
    page.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))",
        field,
        repr(value),
    )


def shown(page: webdriver.Chrome) -> dict[str, str]:
    script = (
        "return Object.fromEntries([...document.querySelectorAll('#readout dd')]"
        ".map(e => [e.id, e.textContent]))"
    )
    return {
        key: text.replace("\N{NO-BREAK SPACE}", " ")
        for key, text in page.execute_script(script).items()
    }


def scores_of(folder: Path, method: str, ood: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / "scores" / f"{method}.npz") as arrays:
        return arrays["test"], arrays[f"ood.{ood}"]


def counted(test: np.ndarray, ood: np.ndarray, threshold: float) -> dict[str, str]:
    """What the page must show, by counting the scores one by one."""
    kept = int(np.sum(test >= threshold))
    missed = int(np.sum(ood >= threshold))
    lost, caught = len(test) - kept, len(ood) - missed

    def share(part: int, whole: int) -> str:
        return f"{100 * part / whole:.2f} %" if whole else "–"  # noqa: RUF001 (a dash)

    return {
        "kept": share(kept, len(test)),
        "kept-count": f"{kept:,} of {len(test):,} ID",
        "caught": share(caught, len(ood)),
        "caught-count": f"{caught:,} of {len(ood):,} OOD",
        "precision-rejected": share(caught, caught + lost),
        "rejected-count": f"{caught:,} of {caught + lost:,} rejected",
        "precision-accepted": share(kept, kept + missed),
        "accepted-count": f"{kept:,} of {kept + missed:,} accepted",
    }


@pytest.mark.parametrize(
    ("method", "ood"), [("ctm", "photos"), ("energy", "rotated"), ("msp", "noise")]
)
def test_it_starts_at_the_measured_threshold(page, folder, method, ood):
    choose(page, method, ood)
    test, strange = scores_of(folder, method, ood)
    measured = evaluate(test, strange)
    assert shown(page) == counted(test, strange, measured.threshold)
    assert shown(page)["caught"] == f"{100 * (1 - measured.fpr):.2f} %"
    assert f"AUROC {100 * measured.auroc:.2f} %" in page.find_element(By.ID, "roc-note").text
    typed = float(page.find_element(By.ID, "threshold-number").get_attribute("value"))
    assert test.dtype.type(typed) == measured.threshold


def test_the_slider_moves_by_keyboard_and_its_numbers_are_the_counts(page, folder):
    choose(page, "ctm", "held-out-digits")
    test, ood = scores_of(folder, "ctm", "held-out-digits")
    slider = page.find_element(By.ID, "threshold-range")
    seen, before = [], float(page.find_element(By.ID, "threshold-number").get_attribute("value"))
    for keys, direction in (
        ([Keys.ARROW_RIGHT] * 5, 1),
        ([Keys.PAGE_DOWN], -1),
        ([Keys.ARROW_LEFT] * 40, -1),
        ([Keys.HOME], -1),
        ([Keys.END], 1),
    ):
        slider.send_keys(*keys)
        now = float(page.find_element(By.ID, "threshold-number").get_attribute("value"))
        assert (now - before) * direction > 0
        assert np.float32(slider.get_attribute("aria-valuetext")) == np.float32(now)
        assert shown(page) == counted(test, ood, np.float32(now))
        before = now
        seen.append(shown(page)["caught"])
    assert len(set(seen)) >= 4
    page.execute_script("return new Promise(done => setTimeout(done, 600))")
    assert (
        page.find_element(By.ID, "spoken")
        .get_attribute("textContent")
        .endswith("of held-out-digits.")
    )


@pytest.mark.parametrize("method", ["knn", "energy"])
def test_a_threshold_that_is_a_score_accepts_it(page, folder, method):
    choose(page, method, "inverted")
    test, ood = scores_of(folder, method, "inverted")
    for score in (np.sort(ood)[len(ood) // 2], np.sort(test)[7], test.max(), ood.min()):
        set_threshold(page, score.item())
        assert shown(page) == counted(test, ood, score)
        above = np.nextafter(score, score.dtype.type(np.inf))
        set_threshold(page, above.item())
        assert shown(page) == counted(test, ood, above)
    for score in np.sort(ood)[::60]:
        set_threshold(page, float(str(score)))  # the shortest text of a float32 is another float64
        assert shown(page) == counted(test, ood, score)
    field = page.find_element(By.ID, "threshold-number")
    for typed in ("-9e9", "9e9"):
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(typed)
        assert shown(page) == counted(test, ood, float(typed))


def test_odd_scores(chromium, folder, tmp_path):
    """Few, equal and infinite scores, none held out.

    1 of 32 is 3.125 %, which Python and the tables round to even.
    """
    copied = copy(folder, tmp_path / "r")
    test, ood = np.append(np.arange(31.0), np.inf), np.array([-np.inf, 5, 5, 40])
    np.savez(copied / "scores" / "ctm.npz", test=test, **{"ood.photos": ood})
    show(chromium, copied, tmp_path)
    choose(chromium, "ctm", "photos")
    for threshold in (1.0, 5.0, 30.5, 40.0):
        set_threshold(chromium, threshold)
        assert shown(chromium) == counted(test, ood, threshold)
    assert shown(chromium)["kept"] == "3.12 %" and chromium.get_log("browser") == []


def test_presets_keep_the_share_that_they_name(page, folder):
    choose(page, "knn", "photos")
    test, ood = scores_of(folder, "knn", "photos")
    for button in page.find_elements(By.CSS_SELECTOR, "[data-keep]"):
        button.send_keys(Keys.ENTER)
        share = int(button.get_attribute("data-keep")) / 100
        assert shown(page) == counted(test, ood, evaluate(test, ood, share).threshold)


def test_every_set_is_counted_and_can_be_chosen(page, folder):
    choose(page, "ctm", "photos")
    threshold = float(page.find_element(By.ID, "threshold-number").get_attribute("value"))
    buttons = page.find_elements(By.CSS_SELECTOR, "#multiples button")
    for button in buttons:
        name, _, caught, *_ = button.text.splitlines()
        test, ood = scores_of(folder, "ctm", name)
        assert caught == counted(test, ood, np.float32(threshold))["caught"]
    buttons[-1].send_keys(Keys.ENTER)
    assert Select(page.find_element(By.ID, "ood")).first_selected_option.text == "noise"
    pressed = page.find_elements(By.CSS_SELECTOR, "#multiples [aria-pressed=true]")
    assert [button.text.splitlines()[0] for button in pressed] == ["noise"]
    assert page.switch_to.active_element == pressed[0]


def test_sorting_by_click_and_by_keyboard(page):
    def column(i: int) -> list[str]:
        return [
            row.text
            for row in page.find_elements(
                By.CSS_SELECTOR, f"#table-paper tbody tr > :nth-child({i + 1})"
            )
        ]

    headers = page.find_elements(By.CSS_SELECTOR, "#table-paper thead th")
    assert headers[1].get_attribute("aria-sort") == "descending"
    values = [float(text.removeprefix("★").split()[-3]) for text in column(1)[:-1]]
    assert values == sorted(values, reverse=True) and column(0)[-1] == "odin"
    page.execute_script("arguments[0].scrollIntoView({behavior: 'instant'})", headers[1])
    headers[1].find_element(By.TAG_NAME, "button").click()
    assert headers[1].get_attribute("aria-sort") == "ascending"
    assert [float(text.removeprefix("★").split()[-3]) for text in column(1)[:-1]] == sorted(values)
    assert column(0)[-1] == "odin"  # has no value, and stays last
    headers[0].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert column(0) == sorted(column(0))
    assert [header.get_attribute("aria-sort") for header in headers][:2] == ["ascending", "none"]


def test_sections_are_sorted_each_by_itself(chromium, folder, tmp_path, monkeypatch):
    """The terminal's table of details, which has a section for every OOD set, on the page."""

    def detail_table(record):
        (table,) = tables_of(replace(record, experiment="detail"))
        return table

    monkeypatch.setattr("typica.bench.report._build.detail_table", detail_table)
    show(chromium, folder, tmp_path)

    def sections() -> list[list[str]]:
        bodies = chromium.find_elements(By.CSS_SELECTOR, "#table-detail tbody")
        script = "return [...arguments[0].rows].map((row) => row.children[0].textContent)"
        return [chromium.execute_script(script, body) for body in bodies]

    before = sections()
    assert [heading.partition(" ")[0] for heading, *_ in before][:2] == ["inverted", "photos"]
    name, *_ = chromium.find_elements(By.CSS_SELECTOR, "#table-detail thead button")
    name.send_keys(Keys.ENTER)
    assert sections() == [[heading, *sorted(rows)] for heading, *rows in before]
    with wide(chromium, 400):
        box = chromium.find_element(By.CSS_SELECTOR, "#detail .scroll")
        chromium.execute_script("arguments[0].scrollLeft = 150", box)
        place = chromium.find_element(By.CSS_SELECTOR, "#detail .section span").rect
        assert box.rect["x"] <= place["x"] and place["x"] + place["width"] <= 400
        first = chromium.find_element(By.CSS_SELECTOR, "#detail thead th")
        seen = "const { x, y } = arguments[0].getBoundingClientRect(); "
        seen += "return document.elementFromPoint(x + 20, y + 15).closest('th') === arguments[0]"
        chromium.execute_script("arguments[0].scrollIntoView({behavior: 'instant'})", box)
        assert chromium.execute_script(seen, first)


def test_every_red_number_leads_to_why(page):
    colour = "return getComputedStyle(arguments[0]).color"
    red = [
        cell
        for cell in page.find_elements(By.CSS_SELECTOR, "td a, td span")
        if page.execute_script(colour, cell) == "rgb(179, 38, 30)"
    ]
    assert len(red) >= 3
    for number in red:
        target = page.execute_script(
            "return document.getElementById(arguments[0].hash.slice(1))?.textContent", number
        )
        row = number.find_element(By.XPATH, "./ancestor::tr").find_element(By.TAG_NAME, "th")
        assert row.get_attribute("textContent") in target and len(target) > 40
    assert page.find_element(By.CSS_SELECTOR, "#why").is_displayed()


def test_the_first_screen_begins_with_the_sentence(page, folder):
    results = json.loads((folder / "result.json").read_text())["results"]
    take = min(results, key=lambda name: results[name]["average"]["fpr"])
    said = page.find_element(By.CLASS_NAME, "headline")
    assert "4 methods were tested on 5 OOD sets" in said.text
    assert f"Take {take}: it lets " in said.text and "at a false-alarm rate of 5 %" in said.text
    assert said.rect["y"] + said.rect["height"] < 500
    assert Select(page.find_element(By.ID, "method")).first_selected_option.text == take


def test_the_gallery_follows_the_method(chromium, folder, tmp_path):
    copied = copy(folder, tmp_path / "r")
    entries = json.loads((copied / "gallery.json").read_text())
    for entry in entries[:2]:
        entries.append(entry | {"method": "energy", "score": -7.5})
    (copied / "gallery.json").write_text(json.dumps(entries))
    show(chromium, copied, tmp_path)
    choose(chromium, "msp", "photos")
    assert "No images were kept for msp." in chromium.find_element(By.ID, "gallery").text
    for method, count in (("ctm", len(entries) - 2), ("energy", 2), ("ctm", len(entries) - 2)):
        choose(chromium, method, "photos")
        images = chromium.find_elements(By.CSS_SELECTOR, ".gallery-of:not([hidden]) img")
        assert len(images) == count
        loaded = "return arguments[0].complete && arguments[0].naturalWidth > 0"
        assert all(chromium.execute_script(loaded, image) for image in images)
    Select(chromium.find_element(By.ID, "gallery-method")).select_by_visible_text("energy")
    assert Select(chromium.find_element(By.ID, "method")).first_selected_option.text == "energy"
    shown_text = chromium.find_element(By.ID, "gallery").text
    assert "Scores of energy." in shown_text and "7.5" in shown_text
    assert chromium.get_log("browser") == []


def test_the_analysis_is_folded_and_unfolds_where_it_is_asked_for(page):
    charts = page.find_element(By.ID, "analysis-charts")
    assert not charts.is_displayed()
    assert "how long their features are" in page.find_element(By.ID, "analysis").text
    page.execute_script("document.querySelector('nav a[href=\"#analysis\"]').click()")
    page.execute_script("return new Promise(done => setTimeout(done, 300))")
    assert charts.is_displayed()
    width = "return document.querySelector('#analysis-charts svg[role=img]').viewBox.baseVal.width"
    assert page.execute_script(width) > 300  # drawn to the room that it has now


def test_depths_are_drawn_with_the_names_of_layers(page):
    charts = page.find_elements(By.CSS_SELECTOR, "#layers-charts figure")
    assert [chart.find_element(By.TAG_NAME, "h3").text for chart in charts] == ["AUROC", "FPR95"]
    for chart in charts:
        assert len(chart.find_elements(By.CSS_SELECTOR, "path.line")) == 2
        assert len(chart.find_elements(By.CSS_SELECTOR, "circle")) == 4
        labels = [text.text for text in chart.find_elements(By.CSS_SELECTOR, "svg text")]
        assert "conv1" in labels and "penultimate" in labels
        legend = chart.find_element(By.CSS_SELECTOR, ".legend").text.split()
        assert legend == ["measured", "published"]


def test_a_caption_is_read_whole_on_a_phone(page):
    with wide(page, 360):
        cut = (
            "return [...document.querySelectorAll('.scroll caption span')].filter(e => "
            "e.offsetParent && e.getBoundingClientRect().right > "
            "e.closest('.scroll').getBoundingClientRect().right).length"
        )
        assert page.execute_script(cut) == 0


def test_heat_map_switches_by_keyboard(page):
    maps = page.find_elements(By.CSS_SELECTOR, ".heat")
    assert [heat.is_displayed() for heat in maps] == [True, False]
    page.find_element(By.CSS_SELECTOR, "[name=metric]").send_keys(Keys.ARROW_RIGHT)
    assert [heat.is_displayed() for heat in maps] == [False, True]


@pytest.mark.parametrize("width", [360, 800])
def test_no_horizontal_scroll(page, width):
    with wide(page, width):
        assert page.execute_script("return [innerWidth, document.documentElement.scrollWidth]") == [
            width,
            width,
        ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_light_and_dark(page, scheme):
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        ground = luminance(page, "section", "backgroundColor")
        assert (ground < 0.1) == (scheme == "dark")
        for selector in ("h2", ".muted", "#table-paper td", "svg text"):
            ink = luminance(page, selector, "fill" if selector == "svg text" else "color")
            high, low = max(ink, ground), min(ink, ground)
            assert (high + 0.05) / (low + 0.05) >= 4.5  # WCAG 2.2, AA
        behaviour = page.execute_script(
            "return getComputedStyle(document.documentElement).scrollBehavior"
        )
        assert behaviour == "auto"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_print_shows_everything(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert all(heat.is_displayed() for heat in page.find_elements(By.CSS_SELECTOR, ".heat"))
        cut = (
            "return [...document.querySelectorAll('.scroll')]"
            ".filter(e => getComputedStyle(e).overflow != 'visible').length"
        )
        assert page.execute_script(cut) == 0
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_focus_is_visible_and_the_skip_link_comes_first(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    first = page.switch_to.active_element
    assert first.get_attribute("class") == "skip" and first.rect["y"] >= 0
    style = page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_names_stay_text_and_nothing_runs(chromium, folder, tmp_path):
    evil = "<img src=x onerror=document.title='run'>"
    document = json.loads((folder / "result.json").read_text())
    strange = {
        name: {**entry, "ood": {evil: entry["ood"]["photos"]}}
        for name, entry in document["results"].items()
    }
    copied = copy(folder, tmp_path / "r", results=strange)
    for path in (copied / "scores").iterdir():
        with np.load(path) as arrays:
            kept = {"test": arrays["test"], f"ood.{evil}": arrays["ood.photos"]}
        np.savez(path, **kept)
    show(chromium, copied, tmp_path)
    assert Select(chromium.find_element(By.ID, "ood")).first_selected_option.text == evil
    assert chromium.title == document["title"] and not chromium.find_elements(
        By.CSS_SELECTOR, "img[src=x]"
    )
    assert chromium.get_log("browser") == []


def test_no_error_and_no_request(chromium, folder, tmp_path):
    chromium.get_log("performance")
    show(chromium, folder, tmp_path)
    choose(chromium, "energy", "noise")
    assert chromium.get_log("browser") == []
    messages = [
        json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")
    ]
    urls = [
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    ]
    assert urls[0].startswith("file:") and urls[0].endswith("report.html")
    assert all(url.startswith("data:") for url in urls[1:])
