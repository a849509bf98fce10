"""Topologies of the sample application as texts, written by hand."""


def described(source: str, sink: str, store: str, *operations: str) -> str:
    """As `Topology#describe` tells it of one line of nodes, of which the aggregation has the store."""
    names = [f"KSTREAM-{name}" if "-" not in name else name for name in ("SOURCE", *operations, "SINK")]
    nodes = [f"{name}-{number:010}" for number, name in enumerate(names)]
    lines = [
        "Topologies:",
        "   Sub-topology: 0",
        f"    Source: {nodes[0]} (topics: [{source}])",
        f"      --> {nodes[1]}",
    ]
    for number in range(1, len(nodes) - 1):
        held = store if "AGGREGATE" in nodes[number] else ""
        lines += [f"    Processor: {nodes[number]} (stores: [{held}])", f"      --> {nodes[number + 1]}"]
        lines.append(f"      <-- {nodes[number - 1]}")
    return "\n".join([*lines, f"    Sink: {nodes[-1]} (topic: {sink})", f"      <-- {nodes[-2]}", ""])
