"""A page opened in headless Chromium, which says what is in it after its scripts have run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")

# What is wrong with a page as it stands: wider than the window, text that is cut off or faint. Whatever scrolls by
# itself may be wide. The contrast is that of WCAG 2, against the backgrounds behind the text.
LOOK = r"""
addEventListener("load", () => setTimeout(() => {
  const wrong = [], all = [...document.querySelectorAll("body *")];
  const inScroller = (one) => one.closest(".scroll, nav, pre");
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page scrolls sideways");
  const numbers = (text) => text.match(/[\d.]+/g).map(Number);
  const linear = (x) => (x <= 0.03928 * 255 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const over = (one) => {  // the background, with those that let it through
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(at).backgroundColor);
      if (a > 0) layers.push([r, g, b, a]);
      if (a === 1) break;
    }
    const onTop = (under, [r, g, b, a]) => under.map((x, i) => x * (1 - a) + [r, g, b][i] * a);
    return layers.reverse().reduce(onTop, [255, 255, 255]);
  };
  for (const one of all) {
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    const text = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || style.visibility === "hidden" || !box.width || one.closest("[hidden], option")) continue;
    const name = `${one.tagName} "${one.textContent.trim().slice(0, 30)}"`;
    if (!inScroller(one) && (box.right > innerWidth + 1 || box.left < -1)) wrong.push(`${name} leaves the window`);
    const cut = style.overflowX === "hidden" && one.scrollWidth > one.clientWidth + 1;
    if (cut && !inScroller(one)) wrong.push(`${name} is cut off`);
    const [x, y] = [light(numbers(style.color)), light(over(one))].sort((p, q) => q - p);
    if ((x + 0.05) / (y + 0.05) < 4.5) wrong.push(`${name} has a contrast of ${((x + 0.05) / (y + 0.05)).toFixed(2)}`);
  }
  parent.postMessage(JSON.stringify([innerWidth, ...[...new Set(wrong)].slice(0, 20)]), "*");
}, 0));
"""


FRAME = """<!doctype html>
<pre id="looked"></pre>
<iframe width="{width}" height="1000" src="{name}" style="border: 0"></iframe>
<script>
addEventListener("message", (event) => {{ document.getElementById("looked").textContent = event.data; }});
</script>
"""


def opened(page: Path, hash_: str = "", *options: str) -> str:
    """The text of a page after its scripts have run."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", *options]
    done = subprocess.run(
        [*command, "--dump-dom", f"file://{page}{hash_}"], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def printed(text: str, identity: str) -> Any:
    """The JSON that a page has put into the element of this id."""
    found = re.search(rf'<pre id="{identity}"[^>]*>(.*?)</pre>', text, re.DOTALL)
    assert found, text[-500:]
    return json.loads(unescape(found[1]))


def faults(page: Path, width: int, dark: bool) -> list[str]:
    """What is wrong with the look of a page at a width, in the light or the dark."""
    looked, frame = page.with_name(f"looked-{page.name}"), page.with_name(f"frame-{page.name}")
    looked.write_text(f"{page.read_text(encoding='utf-8')}<script>{LOOK}</script>", encoding="utf-8")
    # A window has 500 pixels at least, and a frame as few as a phone.
    frame.write_text(FRAME.format(width=width, name=looked.name), encoding="utf-8")
    scheme = "--blink-settings=preferredColorScheme=" + ("0" if dark else "1")
    seen_width, *wrong = printed(opened(frame, "", "--window-size=2100,1200", scheme), "looked")
    assert seen_width == width
    return wrong
