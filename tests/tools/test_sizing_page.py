"""The page about sizes shows the numbers of docs/performance.md and what the files for deployment really allow."""

import re
from pathlib import Path

import pytest
import yaml

from tools.sizing_page import COPIES, DAEMON, MEASURED, PAGE, Fact, look_up, render

ROOT = Path(__file__).resolve().parents[2]
TEXT = MEASURED.read_text(encoding="utf-8")
PAGE_TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("fact", [*DAEMON, *COPIES], ids=lambda fact: fact.question)
def test_each_number_is_one_that_was_measured(fact: Fact) -> None:
    number = look_up(fact, TEXT)
    assert re.match(r"[\d.,]+( |$)", number)
    assert f"| {fact.question} | {number} |" in PAGE_TEXT


def test_another_measurement_makes_another_page() -> None:
    old = look_up(DAEMON[0], TEXT)
    assert f"| {DAEMON[0].question} | 1,234 MB |" in render(TEXT.replace(f" | {old} | ", " | 1,234 MB | "))


def test_a_measurement_that_is_gone_is_named() -> None:
    with pytest.raises(LookupError, match=r"Polling offsets.*looking at 10,000"):
        render(TEXT.replace("| looking at 10,000", "| looking at 20,000"))
    with pytest.raises(LookupError, match="0 sections that begin with 'Kafka clients'"):
        render(TEXT.replace("## Kafka clients", "## Clients"))


def test_the_memory_of_each_way_to_deploy_is_what_its_file_says() -> None:
    deploy = ROOT / "config" / "deploy"
    rows = {
        line.split(" | ")[0].strip("| "): line.split(" | ")[3]
        for line in PAGE_TEXT.splitlines()
        if re.match(r"\| (to try|`kube|a machine)", line)
    }
    compose = yaml.safe_load((deploy / "compose.yaml").read_text(encoding="utf-8"))["services"]["recoveryd"]
    [inside] = [d for d in yaml.safe_load_all((deploy / "kubernetes.yaml").read_text()) if d["kind"] == "Deployment"]
    resources = inside["spec"]["template"]["spec"]["containers"][0]["resources"]
    [unit] = re.findall(r"^MemoryMax=(\d+)G$", (deploy / "recoveryd.service").read_text(), re.MULTILINE)
    assert rows["to try it, `compose.yaml`"].startswith(compose["mem_limit"].replace("g", " GB"))
    asked, most = resources["requests"]["memory"], resources["limits"]["memory"]
    assert rows["`kubernetes.yaml`"] == f"{most[0]} GB (`limits`), {asked[0]} GB asked for"
    assert rows["a machine of its own, `recoveryd.service`"] == f"{unit} GB (`MemoryMax`)"
