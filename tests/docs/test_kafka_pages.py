"""Where our pages speak of what Kafka itself defines, they link to Kafka's own words, under their titles.

A test has no network: it knows the addresses of Kafka's documentation and their titles, and that none other is linked.
"""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
KAFKA = "https://kafka.apache.org/43"
TITLES = {
    f"{KAFKA}/design/design/": "Design",
    f"{KAFKA}/operations/basic-kafka-operations/": "Basic Kafka Operations",
    f"{KAFKA}/operations/tiered-storage/": "Tiered Storage",
    f"{KAFKA}/streams/core-concepts/": "Core Concepts",
    f"{KAFKA}/streams/developer-guide/app-reset-tool/": "Application Reset Tool",
}
SECTIONS = {"#message-delivery-semantics": "Message Delivery Semantics"}
LINKED_FROM = {
    "guarantees.md": {"Message Delivery Semantics", "Core Concepts"},
    "workflows.md": {"Basic Kafka Operations", "Application Reset Tool"},
    "units.md": {"Basic Kafka Operations", "Core Concepts"},
    "policies/forecasts.md": {"Tiered Storage"},
}
LINK = re.compile(r"\[([^\]]+)\]\((https://kafka\.apache\.org/[^)]*)\)")


@pytest.mark.scenario("S-RUN-32")
@pytest.mark.parametrize("page", LINKED_FROM)
def test_a_page_links_to_what_kafka_says_of_its_subject(page: str) -> None:
    found = LINK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert {title for title, _ in found} == LINKED_FROM[page]


@pytest.mark.scenario("S-RUN-32")
def test_each_link_into_kafkas_documentation_has_the_title_of_what_it_leads_to() -> None:
    links = {
        (title, address)
        for path in sorted(DOCS.rglob("*.md"))
        for title, address in LINK.findall(path.read_text(encoding="utf-8"))
    }
    assert {address.partition("#")[0] for _, address in links} == set(TITLES)
    for title, address in links:
        page, hash_sign, section = address.partition("#")
        assert title == (SECTIONS[f"#{section}"] if hash_sign else TITLES[page])
