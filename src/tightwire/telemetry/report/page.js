"use strict";
// Draws the figures that figures.py describes: puts in columns and colours, follows the scheme, the width and the printer.
(() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(hover: none)");
  const hidden = new Set(); // runs switched off in the legend
  let lossAxis = null; // "linear" or "log", once somebody chose
  let paperWidth = null; // pixels, while printing

  const schemes = {
    light: { ink: "#1b1f24", muted: "#5c6672", rule: "#e4e8ec", card: "#ffffff" },
    dark: { ink: "#e8ebee", muted: "#9aa5b1", rule: "#2b323a", card: "#181d23" },
  };
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif';
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], // not plotly's own list: it offers an upload
    plotlyServerURL: "",
    toImageButtonOptions: { format: "svg" },
  };

  const column = (name) => {
    const [run, key] = name.split(".");
    return page.columns[run][key];
  };

  // A copy of what figures.py wrote, with the names of columns and colours replaced by their values.
  function filled(value, key, color) {
    if (key === "color") return Array.isArray(value) ? value.map(color) : color(value);
    if ((key === "x" || key === "y") && typeof value === "string") return column(value);
    if (key === "customdata") {
      const columns = value.map(column);
      return columns[0].map((_, at) => columns.map((values) => values[at]));
    }
    if (Array.isArray(value)) return value.map((inner) => filled(inner, null, color));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, filled(inner, name, color)]));
  }

  function axis(given, theme) {
    const { linear, log, ...rest } = given;
    const chosen = lossAxis && { linear, log }[lossAxis] ? { type: lossAxis, range: { linear, log }[lossAxis] } : {};
    const whole = { ...rest, ...chosen };
    if (whole.type === "log" && !whole.tickvals) whole.dtick = whole.range[1] - whole.range[0] > 3 ? 1 : "D2"; // or 1, 2, 5
    return {
      gridcolor: theme.rule, linecolor: theme.rule, zerolinecolor: theme.rule, showline: true, automargin: true,
      minor: { showgrid: false }, ...whole,
      title: { ...(rest.title || {}), font: { size: 12, color: theme.muted }, standoff: 8 },
    };
  }

  function draw(figure) {
    const box = document.querySelector(`#figure-${figure.key} .plot`);
    const name = dark.matches && !paperWidth ? "dark" : "light";
    const theme = schemes[name];
    const color = (text) => (text.startsWith("run-") ? page.palette[name][Number(text.slice(4))] : theme[text] || text);
    const width = paperWidth || box.clientWidth;
    const narrow = width < 440;
    const data = figure.data.map((trace) => {
      const whole = filled(trace, null, color);
      if (narrow && whole.mode === "markers+text") whole.mode = "markers"; // no room: the legend tells them apart
      if (whole.meta !== undefined) whole.visible = !hidden.has(whole.meta);
      return whole;
    });
    const { xaxis, yaxis, narrow: small = {}, ...rest } = figure.layout;
    const slim = narrow ? small : {};
    const layout = {
      height: paperWidth ? 245 : narrow ? 290 : 340,
      margin: { l: 52, r: narrow ? 8 : 18, t: 14, b: 46 },
      showlegend: false,
      ...rest,
      width: paperWidth || undefined,
      autosize: !paperWidth,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: FONT, size: 12, color: theme.ink },
      hoverlabel: { bgcolor: theme.card, bordercolor: theme.rule, font: { color: theme.ink, family: FONT } },
      hovermode: "closest",
      dragmode: touch.matches ? false : "zoom", // a finger scrolls the page
      modebar: { bgcolor: "rgba(0,0,0,0)", color: theme.muted, activecolor: theme.ink },
      xaxis: axis({ ...xaxis, ...slim.xaxis }, theme),
      yaxis: axis(yaxis, theme),
    };
    return Plotly.react(box, data, layout, { ...CONFIG, displayModeBar: paperWidth || touch.matches ? false : "hover" });
  }

  const drawAll = () => Promise.all(page.figures.map(draw));

  function markAxis() {
    const loss = page.figures.find((figure) => figure.layout.meta === "loss");
    if (!loss) return; // a page without losses
    const now = lossAxis || loss.layout.yaxis.type;
    document.querySelectorAll("[data-axis]").forEach((button) => {
      button.setAttribute("aria-pressed", String(button.dataset.axis === now));
      button.disabled = !loss.layout.yaxis[button.dataset.axis];
    });
  }

  document.querySelectorAll("[data-axis]").forEach((button) =>
    button.addEventListener("click", () => {
      lossAxis = button.dataset.axis;
      markAxis();
      drawAll();
    }),
  );
  document.querySelectorAll(".chip").forEach((chip) =>
    chip.addEventListener("click", () => {
      const run = Number(chip.dataset.run);
      if (!hidden.delete(run)) hidden.add(run);
      chip.setAttribute("aria-pressed", String(!hidden.has(run)));
      drawAll();
    }),
  );

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((block) => (block.open = true));
    paperWidth = 650; // A4 and Letter less their margins
    drawAll();
  });
  addEventListener("afterprint", () => {
    folded.forEach((block) => (block.open = false));
    paperWidth = null;
    drawAll();
  });
  dark.addEventListener("change", drawAll);

  markAxis();
  drawAll().then(() => document.documentElement.setAttribute("data-drawn", String(page.figures.length)));
})();
