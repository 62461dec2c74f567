"""The page in a browser: what a person clicks works, and nothing in it or from it does harm."""

import json
import subprocess
import sys

import pytest
from report_data import DEVICE, ENVIRONMENT, item, make_run, write

from dev.browser import browser, missing, open_page
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(bool(missing()), reason=str(missing()))

# Each would do something, or break the page, where it was taken for more than a text.
EVIL = "<script>document.title='evil'</script>"
HOSTILE = [
    EVIL,
    "</script><script>document.title='evil'</script>",
    "\"'><img src=x onerror=\"document.title='evil'\">",
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "$\\frac{1}{2}$",
    "_hidden",
    "\u202egnp.exe",
    "javascript:document.title='evil'",
    "</style><style>*{display:none}",
    "\x1b[201~; touch /tmp/evil\n",
    "]]>&amp;&lt;",
    "\ud800",
    "x" * 5000,
]


def hostile(results):
    """Write records that have something hostile wherever a record can hold a text."""
    for number, text in enumerate(HOSTILE):
        about = {"name": text, "type": text, "driver": text, text: text, "platform": text}
        params = {"size": "64", "local": f"{2 ** (number % 4)}x2", text: text, "unroll": number}
        for status in ("passed", "failed"):
            each = item(
                text, status, params=params, device=about, argv=["samples/sgemm/run.py", text],
                environment={"host": text, "governors": {text: text}, text: text},
                started=text, reason=None if status == "passed" else text,
                times=(0.001 * (number + 1),) * 3,
            )
            write(results / "hostile.jsonl", each)
    log = make_run(results, item("failing", "failed"), board=f"{EVIL[:8]}board", case="hostile")
    (log / "sgemm" / "hostile.log").write_text("".join(HOSTILE).replace("\ud800", ""))
    (results / f"{EVIL[:8]}x.jsonl").write_text("{")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a run with 131 points, of hostile records and of one that is broken."""
    folder = tmp_path_factory.mktemp("page")
    rows = [
        item(f"kernel{n % 4}", params={"size": str(n), "seed": 1}, times=(n / 1e3,) * 3,
             argv=["samples/sgemm/run.py", "--size", str(n), "--name", "two words"])
        for n in range(1, 131)
    ]
    make_run(folder / "results", *rows, item("last", times=(), status="error"), board="local")
    hostile(folder / "results")
    done = subprocess.run(
        [sys.executable, "report", folder / "results", "-o", folder / "page.html"],
        cwd=ROOT, timeout=60, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "page.html"


@pytest.fixture(scope="module")
def chromium():
    with browser() as driver:
        yield driver


@pytest.fixture
def opened(chromium, page):
    """The browser with the page freshly loaded. In the end nothing was wrong with it."""
    chromium.get_log("browser")
    open_page(chromium, page)
    yield chromium
    assert chromium.get_log("browser") == []
    assert chromium.title == "OpenCL samples: results"


def find(driver, css):
    return driver.find_elements("css selector", css)


def column(driver, name):
    """Return the texts of a column of the table, top to bottom."""
    script = """
    const heads = [...document.querySelectorAll("#table thead th")];
    const at = heads.findIndex((head) => head.dataset.name === arguments[0]);
    return [...document.querySelectorAll("#table tbody tr")].map((r) => r.cells[at].textContent);
    """
    return driver.execute_script(script, name)


def filter_by(driver, text):
    (field,) = find(driver, "#filter")
    field.clear()
    field.send_keys(text)


def count(driver):
    return find(driver, "#count")[0].text


def sort_by(driver, name):
    find(driver, f"#table th[data-name={name}] button")[0].click()
    return find(driver, f"#table th[data-name={name}]")[0].get_attribute("aria-sort")


def test_sorting(opened):
    filter_by(opened, "kernel")
    assert sort_by(opened, "median_ms") == "descending"
    assert column(opened, "median_ms")[:3] == ["130", "129", "128"]
    assert set(column(opened, "others")) == {"seed=1"}  # what all have in common stands aside
    assert sort_by(opened, "median_ms") == "ascending"
    assert column(opened, "median_ms")[:3] == ["1", "2", "3"]
    # Sizes in texts are sorted as numbers: 2 before 10.
    assert sort_by(opened, "params") == "ascending"
    assert column(opened, "params")[1:3] == ["size=2", "size=3"]
    sorted_by = find(opened, "#table th[aria-sort=ascending], #table th[aria-sort=descending]")
    assert [head.get_attribute("data-name") for head in sorted_by] == ["params"]
    # What has no value comes last, both ways.
    filter_by(opened, "speed median_ms<9000")
    assert "last" not in column(opened, "kernel")
    filter_by(opened, "")
    for _ in range(2):
        sort_by(opened, "median_ms")
        assert column(opened, "median_ms")[0] != ""


def test_filtering(opened):
    total = 131 + len(HOSTILE) + 1
    assert count(opened) == f"{total} of {total} points"
    filter_by(opened, "KERNEL1 passed")
    assert count(opened) == f"33 of {total} points"
    assert set(column(opened, "kernel")) == {"kernel1"}
    filter_by(opened, "kernel1 median_ms>100 median_ms<110")
    assert column(opened, "median_ms") == ["101", "105", "109"]
    filter_by(opened, "no such thing")
    assert count(opened) == f"0 of {total} points"
    find(opened, "button[type=reset]")[0].click()
    opened.implicitly_wait(0)
    assert wait(lambda: count(opened) == f"{total} of {total} points")
    select = find(opened, "select[name=status]")[0]
    select.send_keys("error")
    assert wait(lambda: column(opened, "kernel") == ["last"])


def wait(condition):
    """Wait until it is so, at most some seconds."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(None, 5, 0.05).until(lambda _: condition())


def test_more_rows(opened):
    filter_by(opened, "kernel")
    sort_by(opened, "median_ms")
    (more,) = find(opened, "#more")
    for rows in (50, 100, 130):
        assert len(column(opened, "kernel")) == rows
        assert more.is_displayed() == (rows < 130)
        if rows < 130:
            more.click()
    assert column(opened, "median_ms")[50] == "80"
    filter_by(opened, "kernel1")  # and a filter begins anew
    assert len(column(opened, "kernel")) == 33
    filter_by(opened, "kernel")
    assert len(column(opened, "kernel")) == 50


COMMAND = "python samples/sgemm/run.py --size 7 --name 'two words'"


@pytest.mark.parametrize("clipboard", ["its own", "refused"])
def test_copying_the_replay_command(opened, clipboard):
    if clipboard == "refused":
        refuse = "navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))"
        opened.execute_script(refuse)
    filter_by(opened, "size=7 median_ms<8 median_ms>6")
    (button,) = find(opened, "#table tbody button")
    assert button.get_attribute("aria-label") == f"Copy the command: {COMMAND}"
    button.click()
    if clipboard == "refused":  # then a person copies it from the status
        assert wait(lambda: button.text == "Failed")
        assert count(opened) == f"Could not copy: {COMMAND}"
        return
    assert wait(lambda: button.text == "Copied")
    assert count(opened) == f"Copied: {COMMAND}"  # a status: a screen reader says it
    paste(opened)
    assert find(opened, "#filter")[0].get_attribute("value") == COMMAND


def paste(driver):
    from selenium.webdriver.common.keys import Keys

    (field,) = find(driver, "#filter")
    field.clear()
    field.send_keys(Keys.CONTROL, "v")


def test_by_keyboard_alone(opened):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys):
        ActionChains(opened).send_keys(*keys).perform()
        return opened.switch_to.active_element

    assert press(Keys.TAB).text == "Skip to the results"
    opened.execute_script("document.getElementById('filter').focus()")
    press("kernel3")
    seen = []
    for _ in range(40):
        seen.append(press(Keys.TAB))
        if seen[-1].text.startswith("Median ms"):
            break
    press(Keys.ENTER)
    assert column(opened, "median_ms")[0] == "127"
    for _ in range(40):
        if press(Keys.TAB).text == "Copy":
            break
    press(Keys.SPACE)
    assert wait(lambda: count(opened).startswith("Copied: python samples/sgemm/run.py --size 127"))


def test_hostile_texts_stay_texts(opened):
    assert find(opened, "img, iframe, object, embed, a[href^=javascript]") == []
    # Only ours: the data and the script.
    assert len(find(opened, "script")) == 2
    filter_by(opened, "1 of 2")
    shown = column(opened, "kernel")
    assert len(shown) == len(HOSTILE)
    assert EVIL in shown
    assert any(text.startswith("xxxx") and text.endswith("…") for text in shown)
    assert "?gnp.exe" in shown  # nothing turns the text around
    # What a terminal would take for more than a text is no command.
    filter_by(opened, "?[201")
    assert find(opened, "#table tbody tr")
    assert find(opened, "#table tbody button") == []
    filter_by(opened, "{{")
    assert "{{ 7 * 7 }}{% raw %}" in column(opened, "kernel")
    text = find(opened, "main")[0].text
    assert "$\\frac{1}{2}$" in text
    assert EVIL in text
    svg = opened.execute_script(
        "return [...document.querySelectorAll('svg text')].map((t) => t.textContent)"
    )
    assert svg
    assert all("$" in each for each in svg if "frac" in each)


def test_what_could_not_be_read_is_on_the_page(opened):
    (notice,) = find(opened, ".notice:not(noscript *)")
    assert "<script>x.jsonl:1: not a JSON object" in notice.text.replace("\n", " ")


def test_nothing_leaves_the_file(chromium, page):
    chromium.get_log("performance")
    chromium.get(page.as_uri())
    messages = [json.loads(e["message"])["message"] for e in chromium.get_log("performance")]
    asked = {
        m["params"]["request"]["url"]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    }
    assert asked == {page.as_uri()}
    # Even if a record could add an element, it could load nothing.
    blocked = chromium.execute_async_script("""
    const done = arguments[0];
    document.addEventListener("securitypolicyviolation", (event) => done(event.violatedDirective));
    document.body.append(Object.assign(new Image(), { src: "https://example.org/x.png" }));
    """)
    assert blocked == "img-src"
    assert [e["message"].count("Content Security Policy") for e in chromium.get_log("browser")]


def test_tables_say_what_they_are(opened):
    tables = find(opened, "table")
    assert len(tables) > 3
    for table in tables:
        assert table.find_elements("css selector", "caption")[0].get_attribute("textContent")
        heads = table.find_elements("css selector", "thead th")
        assert heads
        assert all(head.get_attribute("scope") == "col" for head in heads)
    names = opened.execute_script("""
    const all = "input, select, button, section, nav, [role=region], [role=group]";
    return [...document.querySelectorAll(all)]
      .map((e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") ||
        e.labels?.[0]?.textContent || e.textContent);
    """)
    assert all(name.strip() for name in names)
    drawings = opened.execute_script("return document.querySelectorAll('figure svg').length")
    numbers = opened.execute_script("return document.querySelectorAll('figure table').length")
    assert drawings == numbers > 2
    ids = opened.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.exhaustive
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_light_dark_and_a_phone(page, dark, width):
    with browser(width, 800, dark) as driver:
        open_page(driver, page)
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width  # what is wider scrolls in its own frame
        contrasts = driver.execute_script(_CONTRASTS)
        assert len(contrasts) > 50
        assert min(contrasts.values()) >= 4.5, min(contrasts.items(), key=lambda kv: kv[1])
        drawn = driver.execute_script(_DRAWN)
        assert len(drawn) > 10
        assert min(drawn.values()) >= 3, min(drawn.items(), key=lambda kv: kv[1])


# Contrast by WCAG 2, of every text on what is behind it, and of the lines of plots.
_LUMINANCE = """
const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) =>
  0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const contrast = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const found = {};
"""
_CONTRASTS = (
    _LUMINANCE
    + """
for (const e of document.querySelectorAll("body *:not(script, svg *, noscript *, :disabled)")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.checkVisibility()) continue;
  const colour = rgba(getComputedStyle(e).color);
  found[`${e.tagName} ${e.className} ${e.textContent.slice(0, 30)}`] = contrast(colour, behind(e));
}
return found;
"""
)
_DRAWN = (
    _LUMINANCE
    + """
for (const e of document.querySelectorAll("figure svg text, figure svg path")) {
  const style = getComputedStyle(e);
  const used = e.tagName === "text" ? style.fill : style.stroke;
  if (used === "none" || e.closest("[id*=gridline], [id*=QuadMesh], defs, clipPath")) continue;
  if (e.tagName !== "text" && Number(style.strokeWidth.replace("px", "")) < 1.2) continue;
  found[`${e.tagName} ${e.closest("g").id} ${e.textContent}`] = contrast(rgba(used), behind(e));
}
return found;
"""
)


def test_it_says_so_without_javascript(page):
    text = page.read_text()
    assert "It needs JavaScript" in text
    assert "Mali-T628" in text[: text.index('id="data"')]
    assert DEVICE["name"] == "Mali-T628"
    assert ENVIRONMENT["host"] in text
