"""Verdicts as files: rows for programs, and a page of what was rejected for people."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.browser import chromium_in, contrast, fetched, needs_browser, scheme, wide
from helpers.images import encoded, random_pixels
from PIL import Image
from selenium import webdriver

from typica.data import _verdict_page, open_images, write_verdicts
from typica.errors import InputError
from typica.verdicts import Verdicts

EVIL = "<img src=x onerror=document.title='run'>"


def test_a_page_shows_control_characters(tmp_path: Path):
    nearest = np.array(["gpj.\u202etac", "cat\x1b[31m"])
    verdicts = Verdicts(np.zeros(2), typical=np.array([False, False]), nearest=nearest)
    write_verdicts(verdicts, tmp_path / "page.html", about="CTM\u2066")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert r"gpj.\u202etac" in page and r"cat\x1b[31m" in page and r"CTM\u2066" in page
    assert not set(page) & set("\u202e\x1b\u2066")
    assert not set(verdicts._repr_html_()) & set("\u202e\x1b\u2066")


def make_verdicts(n: int = 12, files: list[str] | None = None) -> Verdicts:
    score = np.linspace(0.1, 0.9, n)[::-1].copy()
    nearest = np.array([EVIL, "bee", "cat"] * n)[:n]
    return Verdicts(
        score,
        typical=score >= 0.5,
        threshold=np.full(n, 0.5),
        p_value=score / 2,
        nearest=nearest,
        similarity=score,
        file=None if files is None else np.array(files),
    )


class Page(HTMLParser):
    """The elements of a page: (tag, attributes), and the texts by the tag they stand in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, text):
        self.texts.append(text.strip())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def write_page(path: Path, verdicts: Verdicts, **options) -> Page:
    write_verdicts(verdicts, path, **options)
    return Page(path.read_text(encoding="utf-8"))


def thumbnail(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def test_the_page_shows_the_rejected_with_their_images_the_strangest_first(tmp_path: Path):
    pixels = random_pixels(12, 20, 30)
    verdicts = make_verdicts(12, [f"{i}.png" for i in range(12)])
    page = write_page(
        tmp_path / "page.html", verdicts, images=open_images(pixels), about="CTM: 3 classes"
    )
    rejected = np.flatnonzero(~verdicts.typical)[::-1]  # the last scores least
    images = page.all("img")
    assert [image["alt"] for image in images] == [f"{i}.png" for i in rejected]
    for image, row in zip(images, rejected, strict=True):
        np.testing.assert_array_equal(thumbnail(image["src"]), pixels[row])
    assert f"{len(rejected)} of 12 images are atypical, 50.00 %" in page.texts
    assert "CTM: 3 classes" in page.texts and "What was rejected" in page.texts
    for row in rejected:
        for part in verdicts.reasons(row):
            assert part in page.texts
    assert not page.all("script") and not page.all("table")


def test_rows_that_are_not_images_are_a_table(tmp_path: Path):
    page = write_page(tmp_path / "page.html", make_verdicts())
    assert len(page.all("tr")) == 1 + 6 and not page.all("img")
    assert "6 of 12 rows are atypical, 50.00 %" in page.texts
    assert EVIL in page.texts  # a class's name, as text
    accepted = write_page(tmp_path / "page.html", make_verdicts(), only="typical", sort="input")
    assert "What was accepted" in accepted.texts
    scores = [f"{score:.4g}" for score in make_verdicts().score[:6]]
    assert [text for text in accepted.texts if text in scores] == scores


def test_images_are_bounded_in_number_and_size(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(_verdict_page, "IMAGES", 4)
    monkeypatch.setattr(_verdict_page, "ROWS", 3)
    pixels = random_pixels(12, 300, 500)
    all_rejected = Verdicts(np.arange(12.0), typical=np.zeros(12, dtype=bool))
    page = write_page(tmp_path / "page.html", all_rejected, images=open_images(pixels))
    assert len(page.all("img")) == 4 and len(page.all("tr")) == 1 + 3
    assert "And 5 more, which are not shown." in page.texts
    for image in page.all("img"):
        assert image["src"].startswith("data:image/jpeg;base64,")
        assert max(thumbnail(image["src"]).size) == _verdict_page.SIDE


def test_photographs_stand_upright_and_what_has_gone_is_said(tmp_path: Path):
    turned = Image.fromarray(random_pixels(40, 80))
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned by a quarter
    (tmp_path / "a.jpg").write_bytes(encoded(turned, "jpeg", exif=exif))
    (tmp_path / "b.png").write_bytes(encoded(random_pixels(8, 8)))
    images = open_images([tmp_path / "a.jpg", tmp_path / "b.png"])
    rejected = Verdicts(np.array([0.1, 0.2]), typical=np.zeros(2, dtype=bool))
    (tmp_path / "b.png").unlink()
    page = write_page(tmp_path / "page.html", rejected, images=images)
    (image,) = page.all("img")
    assert thumbnail(image["src"]).size == (40, 80)
    assert any("b.png" in text and "cannot be read" in text for text in page.texts)


def test_deep_greys_are_shown_as_the_network_sees_them(tmp_path: Path):
    deep = Image.fromarray(np.array([[0, 32896, 65535]], dtype=np.uint16))
    rejected = Verdicts(np.array([0.1]), typical=np.zeros(1, dtype=bool))
    page = write_page(tmp_path / "page.html", rejected, images=open_images([deep]))
    (image,) = page.all("img")
    assert np.asarray(thumbnail(image["src"]))[0, :, 0].tolist() == [0, 128, 255]


def test_the_numbers_of_rows_lead_to_the_images(tmp_path: Path):
    """As where some images could not be read, and rows and images have different numbers."""
    pixels = random_pixels(5, 8, 8)
    kept = np.array([0, 3])
    verdicts = Verdicts(np.array([0.2, 0.1]), typical=np.zeros(2, dtype=bool), row=kept)
    page = write_page(tmp_path / "page.html", verdicts, images=open_images(pixels))
    for image, row in zip(page.all("img"), [3, 0], strict=True):
        np.testing.assert_array_equal(thumbnail(image["src"]), pixels[row])
    with pytest.raises(InputError, match=r"^write_verdicts: 2 images, but a verdict on number 3"):
        write_page(tmp_path / "other.html", verdicts, images=open_images(pixels[:2]))
    assert not (tmp_path / "other.html").exists()


def test_nothing_rejected_and_nothing_decided(tmp_path: Path):
    accepted = Verdicts(np.array([0.9]), typical=np.array([True]))
    page = write_page(tmp_path / "page.html", accepted)
    assert "Nothing: there is no such input among these." in page.texts
    undecided = write_page(tmp_path / "page.html", Verdicts(np.array([0.9, 0.1])))
    assert "2 rows, no threshold" in undecided.texts and len(undecided.all("tr")) == 3


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_keep_the_order_of_the_input_unless_told_otherwise(tmp_path: Path, ending):
    def rows(**options) -> list[int]:
        path = tmp_path / f"rows.{ending}"
        write_verdicts(make_verdicts(), path, **options)
        if ending == "parquet":
            return pq.read_table(path).to_pydict()["row"]
        if ending == "csv":
            return [int(row["row"]) for row in csv.DictReader(path.read_text().splitlines())]
        return [int(number) for number in re.findall(r'"row": (\d+)', path.read_text())]

    assert rows() == list(range(12))
    assert rows(sort="score") == list(range(12))[::-1]
    assert rows(only="atypical") == list(range(6, 12))
    assert rows(only="atypical", sort="p_value") == list(range(6, 12))[::-1]
    assert rows(only="typical") == list(range(6))


def test_no_rows_still_have_their_columns(tmp_path: Path):
    accepted = Verdicts(np.array([0.9]), typical=np.array([True]))
    write_verdicts(accepted, tmp_path / "rows.csv", only="atypical")
    assert (tmp_path / "rows.csv").read_text() == "row,verdict,score\n"
    write_verdicts(accepted, tmp_path / "rows.parquet", only="atypical")
    assert pq.read_table(tmp_path / "rows.parquet").column_names == ["row", "verdict", "score"]
    with pytest.raises(InputError, match=r"the ending '.txt' is unknown; use .csv, .* .html"):
        write_verdicts(accepted, tmp_path / "rows.txt")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium_in(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def shown(chromium: webdriver.Chrome, tmp_path: Path) -> webdriver.Chrome:
    """A page with images, a table and names that are long, foreign or hostile."""
    files = [EVIL, "a" * 200 + ".png", *(f"folder/photo {i}.jpg" for i in range(10))]
    verdicts = make_verdicts(12, files)
    strange = Verdicts(
        verdicts.score,
        typical=np.zeros(12, dtype=bool),
        threshold=np.full(12, 1.0),
        p_value=verdicts.p_value,
        nearest=verdicts.nearest,
        similarity=verdicts.score,
        file=verdicts.file,
    )
    path = tmp_path / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_verdict_page, "IMAGES", 8)
        images = open_images([*random_pixels(11, 30, 40), random_pixels(300, 400)])
        write_verdicts(strange, path, images=images, about=EVIL)
    chromium.get_log("browser")
    fetched(chromium)
    chromium.get(path.as_uri())
    return chromium


@needs_browser
def test_the_page_runs_nothing_and_asks_for_nothing(shown):
    assert shown.title == "12 of 12 images are atypical, 100.00 %"
    assert shown.get_log("browser") == []
    assert [url for url in fetched(shown) if not url.startswith("data:")] == [shown.current_url]
    broken = "return [...document.images].filter(i => !i.naturalWidth).length"
    assert shown.execute_script(broken) == 0


@needs_browser
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_the_page_never_scrolls_sideways(shown, width):
    with wide(shown, width):
        widths = "return [innerWidth, document.documentElement.scrollWidth]"
        assert shown.execute_script(widths) == [width, width]


@needs_browser
@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_page_is_legible_in_light_and_dark(shown, name):
    with scheme(shown, name):
        assert contrast(shown, "h1", "body") >= 7
        for ink in (".name", "figcaption li"):
            assert contrast(shown, ink, "figure") >= 4.5  # WCAG 2.2, AA
        for ink in (".soft", "h2"):
            assert contrast(shown, ink, "body") >= 4.5
        assert contrast(shown, "td", ".scroll") >= 4.5
