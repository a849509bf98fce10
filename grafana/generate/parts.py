"""The kinds of panels that all dashboards are made of, in one style. No query is written here.

Every panel must have a title, a description and a unit; the signatures require them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from grafana_foundation_sdk.builders import bargauge, common, dashboard, heatmap, prometheus, stat, statetimeline, table
from grafana_foundation_sdk.builders import timeseries as ts
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heatmap_model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
REPLAY, LIVE = "orange", "blue"
GOOD, WARN, BAD, NEUTRAL = "green", "orange", "red", "gray"
CLEAR = "transparent"
NOT_KNOWN = "not known"
STATES = (
    "requested", "planning", "planned", "awaiting_approval", "starting", "running", "pausing", "paused", "stopping",
    "verifying", "completed",
    "stopped", "failed", "rejected", "expired",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """`legend` is Grafana's template for a series' name: `{{topic}}`. `instant` asks for the newest value only."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """How series whose name matches `regex` are drawn; None keeps the common style."""

    regex: str
    color: str | None = None
    dashed: bool = False
    band: bool = False  # a filled background on a hidden axis from 0 to 1
    unit: str | None = None

    def properties(self) -> list[model.DynamicConfigValue]:
        found: dict[str, Any] = {}
        if self.color:
            found["color"] = {"mode": "fixed", "fixedColor": self.color}
        if self.dashed:
            found["custom.lineStyle"] = {"fill": "dash", "dash": [8, 6]}
            found["custom.fillOpacity"] = 0
        if self.band:
            found |= {"custom.lineWidth": 0, "custom.fillOpacity": 12, "custom.axisPlacement": "hidden", "max": 1}
            found |= {
                "custom.lineInterpolation": "stepAfter",
                "min": 0,
                "custom.hideFrom": {"legend": False, "tooltip": True, "viz": False},
            }
        if self.unit:
            found["unit"] = self.unit
        return [model.DynamicConfigValue(name, value) for name, value in found.items()]


class PanelBuilder(Protocol):
    """What `Dashboard.with_panel` takes."""

    def build(self) -> model.Panel: ...


def queries_of(asked: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [_query(number, one) for number, one in enumerate(asked)]


def _now(asked: Sequence[Query]) -> list[prometheus.Dataquery]:
    """For panels of a single value: of a range, the last value would stand for as long as the range shows it, also when
    nobody is there any more to tell another one.
    """
    return queries_of([replace(one, instant=True) for one in asked])


def thresholds(base: str, *steps: tuple[float, str]) -> dashboard.ThresholdsConfig:
    """`base` is the colour below the first step."""
    made = [model.Threshold(None, base), *(model.Threshold(value, color) for value, color in steps)]
    return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(made)


def mapping(shown: dict[str, tuple[str, str]]) -> list[model.ValueMapping]:
    """Text and colour per value."""
    results = {
        value: model.ValueMappingResult(text=text, color=color, index=i)
        for i, (value, (text, color)) in enumerate(shown.items())
    }
    return [model.ValueMap(options=results)]


def timeseries(
    title: str, description: str, unit: str, asked: Sequence[Query], *,
    width: int = 12, height: int = 8, looks: Sequence[Look] = (), stacked: bool = False, least: float | None = 0.0,
    most: float | None = None,
    line_at: float | None = None, bars: bool = False, log: bool = False, absent: str = "",
) -> ts.Panel:  # fmt: skip
    """Lines over time; `line_at` draws a red line at that value, `stacked` makes areas that add up, `log` is a scale of
    powers of ten, and `absent` is said where nothing was found.
    """
    panel = ts.Panel().title(title).description(description).unit(unit).datasource(SOURCE).span(width).height(height)
    panel.targets([*queries_of(asked)]).line_width(1.5).show_points(kinds.VisibilityMode.NEVER).span_nulls(False)
    panel.fill_opacity(60 if bars else 25 if stacked else 5)
    panel.legend(
        common.VizLegendOptions()
        .display_mode(kinds.LegendDisplayMode.LIST)
        .placement(kinds.LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    panel.tooltip(common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING))
    if least is not None:
        panel.min(least)
    if most is not None:
        panel.max(most)
    if stacked or bars:
        panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL))
    if bars:
        panel.draw_style(kinds.GraphDrawStyle.BARS).interval("1m")  # wide steps, so that an event is seldom in two bars
    if log:
        panel.scale_distribution(common.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG).log(10))
    if absent:
        panel.no_value(absent)
    if line_at is not None:
        panel.thresholds(thresholds(CLEAR, (line_at, BAD)))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED))
    for look in looks:
        panel.override_by_regexp(look.regex, look.properties())
    return panel


def stat_panel(
    title: str, description: str, unit: str, asked: Sequence[Query], *,
    width: int = 4, height: int = 4, levels: dashboard.ThresholdsConfig | None = None,
    shown: dict[str, tuple[str, str]] | None = None,
    name_only: bool = False, absent: str = NOT_KNOWN,
) -> stat.Panel:  # fmt: skip
    """One big value of now per series, coloured by `levels` or named by `shown`; `name_only` shows the series' name
    instead of its value. `absent` is said where there is no series, which may be so on purpose.
    """
    panel = stat.Panel().title(title).description(description).unit(unit).datasource(SOURCE).span(width).height(height)
    panel.targets([*_now(asked)]).graph_mode(kinds.BigValueGraphMode.NONE).color_mode(kinds.BigValueColorMode.VALUE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
    panel.thresholds(levels or thresholds(NEUTRAL)).no_value(absent)
    if shown:
        panel.mappings(mapping(shown))
    if unit == "none":
        panel.decimals(0)  # counts must be shown as whole numbers, although `increase` extrapolates
    if name_only:
        panel.text_mode(kinds.BigValueTextMode.NAME)
    return panel


def state_timeline(
    title: str,
    description: str,
    asked: Sequence[Query],
    shown: dict[str, tuple[str, str]],
    *,
    width: int = 24,
    height: int = 8,
    leads_to: dashboard.DashboardLink | None = None,
    absent: str = "",
) -> statetimeline.Panel:
    """A row per series, a coloured span per value; `shown` names the values, `leads_to` opens from a span, `absent` is
    said where nothing was found.
    """
    panel = statetimeline.Panel().title(title).description(description).unit("none").datasource(SOURCE)
    panel.span(width).height(height).targets([*queries_of(asked)]).mappings(mapping(shown))
    panel.show_value(kinds.VisibilityMode.NEVER).merge_values(True).row_height(0.8).fill_opacity(80).line_width(0)
    panel.legend(
        common.VizLegendOptions()
        .display_mode(kinds.LegendDisplayMode.LIST)
        .placement(kinds.LegendPlacement.BOTTOM)
        .show_legend(False)
    )
    panel.thresholds(thresholds(CLEAR))
    if absent:
        panel.no_value(absent)
    return panel if leads_to is None else panel.data_links([leads_to])


def bar_gauge(
    title: str, description: str, unit: str, asked: Sequence[Query], *,
    width: int = 12, height: int = 8, levels: dashboard.ThresholdsConfig | None = None, least: float = 0.0,
    most: float | None = None, absent: str = NOT_KNOWN,
) -> bargauge.Panel:  # fmt: skip
    """A horizontal bar per series with its value of now."""
    panel = (
        bargauge.Panel().title(title).description(description).unit(unit).datasource(SOURCE).span(width).height(height)
    )
    panel.targets([*_now(asked)]).orientation(kinds.VizOrientation.HORIZONTAL).display_mode(
        kinds.BarGaugeDisplayMode.BASIC
    )
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
    panel.min(least).thresholds(levels or thresholds(LIVE)).no_value(absent)
    return panel if most is None else panel.max(most)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: the value of `expr`, or of its `label` when one is given, joined over the table's key."""

    title: str
    expr: str
    unit: str = "none"
    label: str = ""


def table_panel(
    title: str, description: str, key: str, columns: Sequence[Column], *, width: int = 24, height: int = 8,
    leads_to: dashboard.DashboardLink | None = None, absent: str = "",
) -> table.Panel:  # fmt: skip
    """A row per value of the label `key`, a column per query. The query of a column that shows a label must keep that
    label in its result. `leads_to` opens from the row's key; `absent` is said where there are no rows.
    """
    refs = [_ref(number) for number in range(len(columns))]
    panel = (
        table.Panel().title(title).description(description).unit("none").datasource(SOURCE).span(width).height(height)
    )
    panel.targets([_query(i, Query(c.expr, instant=True)).format(PromQueryFormat.TABLE) for i, c in enumerate(columns)])
    panel.cell_height(kinds.TableCellHeight.SM).filterable(True).thresholds(thresholds(NEUTRAL))
    panel.with_transformation(model.DataTransformerConfig("joinByField", options={"byField": key, "mode": "outer"}))
    several = len(columns) > 1
    names = {c.label or _value_of(ref, several=several): c.title for ref, c in zip(refs, columns, strict=True)}
    kept = [key, *names]
    options = {"include": {"names": kept}}
    panel.with_transformation(model.DataTransformerConfig("filterFieldsByName", options=options))
    order = {name: i for i, name in enumerate(kept)}
    panel.with_transformation(
        model.DataTransformerConfig(
            "organize",
            options={"renameByName": {key: key.capitalize(), **names}, "indexByName": order, "excludeByName": {}},
        )
    )
    for column in columns:
        if column.unit != "none":
            panel.override_by_name(column.title, [model.DynamicConfigValue("unit", column.unit)])
    if leads_to is not None:
        link = leads_to.build()
        shown_as = [{"title": link.title, "url": link.url, "targetBlank": False}]
        panel.override_by_name(key.capitalize(), [model.DynamicConfigValue("links", shown_as)])
    return panel.no_value(absent) if absent else panel


def link_to(title: str, board: str, **variables: str) -> dashboard.DashboardLink:
    """A link to the dashboard with the uid `board`, with the same data source, daemons and time; `variables` are
    Grafana's templates for its own ones.
    """
    chosen = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return dashboard.DashboardLink(title).url(
        f"/d/{board}?${{datasource:queryparam}}&${{job:queryparam}}{chosen}&${{__url_time_range}}"
    )


def heatmap_panel(
    title: str, description: str, unit: str, asked: Query, *, width: int = 12, height: int = 8
) -> heatmap.Panel:
    """Buckets of a Prometheus histogram over time; `asked` must keep the label `le`."""
    panel = (
        heatmap.Panel().title(title).description(description).unit(unit).datasource(SOURCE).span(width).height(height)
    )
    panel.targets([_query(0, asked).format(PromQueryFormat.HEATMAP)]).calculate(False)
    panel.y_axis(heatmap.YAxisConfig().unit(unit))
    panel.color(
        heatmap.HeatmapColorOptions()
        .mode(heatmap_model.HeatmapColorMode.SCHEME)
        .scheme("Oranges")
        .steps(32)
        .exponent(0.5)
    )
    panel.thresholds(thresholds(NEUTRAL))
    return panel


def _query(number: int, asked: Query) -> prometheus.Dataquery:
    made = (
        prometheus.Dataquery()
        .expr(asked.expr)
        .ref_id(_ref(number))
        .datasource(SOURCE)
        .legend_format(asked.legend or "__auto")
    )
    return made.instant() if asked.instant else made.range()


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _value_of(ref: str, *, several: bool) -> str:
    return f"Value #{ref}" if several else "Value"
