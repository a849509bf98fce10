"""`make site`: the pages as a site in build/site.

Pages link to each other and to files of the repository by relative paths, as they lie. So what git knows of the root's
pages, docs, config and grafana is staged as it lies, and mkdocs builds from that; a link to nothing ends the build, and
so does anything that a browser would fetch from elsewhere.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
_STAGED = (":(glob)*.md", "LICENSE", "docs", "config", "grafana/dashboards", "grafana/prometheus", "Dockerfile")
_FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^>]*>", re.IGNORECASE)
_FETCHED_BY_CSS = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])(?:https?:)?//[^)'\";\s]*", re.IGNORECASE)
_STYLE = re.compile(r"<style\b[^>]*>(.*?)</style>|\bstyle=\"([^\"]*)\"", re.IGNORECASE | re.DOTALL)


def main() -> int:
    """1 when a link leads nowhere, or a page would fetch something from elsewhere."""
    stage()
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--clean", "--config-file", str(ROOT / "mkdocs.yml")]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        return 1
    foreign = sorted(fetched_from_elsewhere(SITE))
    for page, what in foreign:
        print(f"{page} would fetch {what}", file=sys.stderr)
    print(f"{sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE.relative_to(ROOT)}")
    return 1 if foreign else 0


def stage() -> None:
    """Copy what git knows, with changes that are not committed yet."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for path in known_files():
        target = SOURCE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)


def known_files() -> list[Path]:
    """Relative to the root. Without git (an unpacked archive) all that is there."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *_STAGED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [Path(name) for name in done.stdout.splitlines() if (ROOT / name).is_file() and name != "mkdocs.yml"]
    found = [path for pattern in _STAGED for path in ROOT.glob(pattern)]
    files = [file for path in found for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return [file.relative_to(ROOT) for file in files]


def fetched_from_elsewhere(site: Path) -> Iterator[tuple[str, str]]:
    """Pages and style sheets with what a browser would load from another host when it shows them."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        found = [tag for tag in _FETCHED.findall(text) if 'rel="canonical"' not in tag]
        styles = "\n".join(part for pair in _STYLE.findall(text) for part in pair)
        for what in found + _FETCHED_BY_CSS.findall(styles):
            yield str(page.relative_to(site)), what
    for sheet in site.rglob("*.css"):
        for what in _FETCHED_BY_CSS.findall(sheet.read_text(encoding="utf-8")):
            yield str(sheet.relative_to(site)), what


if __name__ == "__main__":
    raise SystemExit(main())
