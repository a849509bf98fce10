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
    """Pages with what a browser would load from another host when it shows them."""
    for page in site.rglob("*.html"):
        for found in _FETCHED.findall(page.read_text(encoding="utf-8")):
            if 'rel="canonical"' not in found:
                yield str(page.relative_to(site)), found


if __name__ == "__main__":
    raise SystemExit(main())
