"""A headless Chromium of its own, driven by Selenium: for the screenshots, and the page's tests."""

import contextlib
import shutil
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from common.errors import UsageError

_OPTIONS = (
    "--headless=new", "--disable-gpu", "--hide-scrollbars",
    "--disable-component-update",  # it is to show one file from the disk, and need fetch nothing
    "--no-sandbox",  # it may run as root, in a container; the page is ours, and may load nothing
)


def missing():
    """Return what must be installed before a browser can be opened, or None."""
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        return "Chromium is not installed (Debian: chromium, chromium-driver)"
    return None


@contextlib.contextmanager
def browser(width=1280, height=900, dark=False):
    """Open a browser with a window of that size, and close it. Raises UsageError."""
    if why := missing():
        raise UsageError(why)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory() as profile:  # Chromium leaves that of its own behind
        for option in (*_OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        with webdriver.Chrome(options, Service(shutil.which("chromedriver"))) as driver:
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            yield driver


def open_page(driver, page):
    """Open a page of the report; return the milliseconds until its table was filled."""
    driver.get(page.as_uri())
    return driver.execute_async_script("""
    const timer = setInterval(() => {
      if (!document.querySelector("#table tbody tr")) return;
      clearInterval(timer);
      arguments[0](performance.now());
    }, 10);
    """)
