"""What surrounds the panels: an empty dashboard with the common variables, further variables, annotations."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as model

from grafana.generate.parts import SOURCE


def variable(name: str, label: str, description: str, query: str, *, several: bool = True) -> dashboard.QueryVariable:
    """Values of a label; `several` offers All and any number of them, else exactly one is chosen."""
    made = dashboard.QueryVariable(name).label(label).description(description).datasource(SOURCE)
    made.query({"query": query, "refId": f"variable-{name}"})
    made.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.ALPHABETICAL_ASC)
    if several:
        made.multi(True).include_all(True).all_value(".*")
        made.current(model.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return made


def annotation(name: str, color: str, expr: str, title: str, text: str) -> dashboard.AnnotationQuery:
    """A mark wherever `expr` has a value; `title` and `text` may use its labels."""
    return (
        _MarkBuilder({"titleFormat": title, "textFormat": text, "step": "15s", "useValueForTime": False})
        .name(name)
        .expr(expr)
        .icon_color(color)
    )


class _MarkBuilder(dashboard.AnnotationQuery):
    """The SDK knows no title and text of Prometheus annotations; this adds them."""

    def __init__(self, more: dict[str, object]) -> None:
        super().__init__()
        self._more = more
        self.datasource(SOURCE).enable(True)

    def build(self) -> model.AnnotationQuery:
        return _Mark(super().build(), self._more)


class _Mark(model.AnnotationQuery):
    def __init__(self, plain: model.AnnotationQuery, more: dict[str, object]) -> None:
        super().__init__(plain.name, plain.datasource, plain.enable, icon_color=plain.icon_color, expr=plain.expr)
        self._more = more

    def to_json(self) -> dict[str, object]:
        return super().to_json() | self._more


def board(uid: str, title: str, description: str, *, last: str = "now-1h") -> dashboard.Dashboard:
    """An empty dashboard with the common variables: the data source, and which daemons. Those of one scope at a time:
    ids and names of clusters are unique in a scope only, and `up` is there for everything that is scraped.
    """
    made = dashboard.Dashboard(title).uid(uid).description(description).tags(["recoveryd"]).timezone("browser")
    made.time(last, "now").refresh("10s").tooltip(model.DashboardCursorSync.CROSSHAIR).version(1)
    made.link(
        dashboard.DashboardLink("recoveryd").type(model.DashboardLinkType.DASHBOARDS).tags(["recoveryd"])
        .as_dropdown(True).keep_time(True).include_vars(True)
    )  # fmt: skip
    made.with_variable(
        dashboard.DatasourceVariable("datasource")
        .label("Data source")
        .description("The Prometheus that scrapes the daemon.")
        .type("prometheus")
    )
    made.with_variable(
        variable(
            "job", "Daemon", "Scrape job of the daemons of one scope.", "label_values(recoveryd_leader, job)",
            several=False,
        )
    )  # fmt: skip
    return made
