"""Which points a plot has, and what stands together."""

from report_data import item, write

from report import reading, selection


def plots(folder):
    """Return the plots of the records below a folder."""
    return list(selection.plots(reading.collect([folder], "/nowhere").points))


def test_orders_and_clocks(tmp_path):
    for order in (64, 128):
        for pin in ("177", "600"):
            write(tmp_path / "r.jsonl", item(params={"size": order, "pin": pin}))
    titles = [plot.title for plot in plots(tmp_path)]
    assert "Orders and clocks of dot4" in titles


def test_precisions_and_samples_are_kept_apart(tmp_path):
    for sample in ("one", "two"):
        for precision in ("float32", "single", "double", "half"):
            for size in (8, 16):
                params = {"size": size, "precision": precision}
                write(tmp_path / "r.jsonl", item(sample=sample, params=params))
    found = plots(tmp_path)
    assert len(found) == 6
    assert {plot.title for plot in found} == {f"{s}: GFLOPS over size" for s in ("one", "two")}
    assert {plot.where.split(", ")[1] for plot in found} == {
        "single precision", "double precision", "half precision",
    }


def test_integer_operations_are_in_gops(tmp_path):
    for kernel in ("dot4", "row4", "wide"):
        for size in (8, 16):
            params = {"size": size, "precision": "int8"}
            write(tmp_path / "r.jsonl", item(kernel, params=params))
    over_size, kernels = plots(tmp_path)
    assert over_size.title == "GOPS over size"
    assert over_size.draw().axes[0].get_ylabel() == "GOPS"
    assert kernels.draw().axes[0].get_xlabel().endswith("labels: GOPS")
    for plot in (over_size, kernels):
        assert "GOPS" in plot.rows[0]
        assert "GFLOPS" not in f"{plot.note} {plot.rows[0]}"


def test_batches_are_kept_apart(tmp_path):
    for params in ({}, {"batch": 4096}):
        for size in (8, 16):
            write(tmp_path / "r.jsonl", item(params={"size": size, **params}))
    assert [plot.where.split(", ", 1)[1] for plot in plots(tmp_path)] == [
        "single precision", "single precision, batches of 4096",
    ]


def test_a_line_has_one_set_of_parameters(tmp_path):
    """As gemm_intel has it: small tiles were fast at 256, and large ones were slow at 512."""

    def add(size, tile, gflops, *more, **params):
        argv = ["samples/sgemm/run.py", "-s", str(size), f"--tile={tile}", *more]
        params = {"size": size, "tile": tile, **params}
        each = item(argv=argv, params=params, metrics={"gflops": gflops}, times=(0.1,))
        write(tmp_path / "r.jsonl", each)

    def lines():
        shown = {plot.title: plot for plot in plots(tmp_path)}.get("GFLOPS over size")
        return shown and [(shown.note.partition(" it has ")[2], r["kernel"], r["size"], r["GFLOPS"])
                          for r in shown.rows]

    add(256, 1, 101.0)
    add(512, 16, 4.0)
    assert lines() is None
    add(512, 1, 90.0)
    assert lines() == [("tile=1.", "dot4", "256", 101.0), ("tile=1.", "dot4", "512", 90.0)]
    # What only follows the size is no other set; the most sizes go before the fastest.
    for size in (256, 512, 1024):
        add(size, 16, 4.0, "--again", lda=size)
    assert lines() == [("tile=16.", "dot4", str(size), 4.0) for size in (256, 512, 1024)]


def test_a_legend_names_what_differs_and_fits_the_plot(tmp_path):
    for kernel in ("dot4", "row4"):
        for size, tile in ((8, 1), (16, 1), (8, 2)):
            params = {"size": size, "tile": tile, "lanes": kernel * 12}
            write(tmp_path / "r.jsonl", item(kernel, params=params))
        write(tmp_path / "r.jsonl", item(kernel, params={"size": 8, "tile": 1, "lanes": "1"}))
    (plot,) = (plot for plot in plots(tmp_path) if plot.title == "GFLOPS over size")
    assert "several sets it has tile=1." in plot.note
    assert {row["kernel"] for row in plot.rows} == {f"{k} lanes={k * 12}" for k in ("dot4", "row4")}
    figure = plot.draw()
    (legend,) = figure.legends
    names = {text.get_text().replace("\n", " ") for text in legend.texts}
    assert names == {row["kernel"] for row in plot.rows}
    assert legend.get_window_extent().width <= figure.bbox.width


def test_warm_and_flushed_caches_are_kept_apart(tmp_path):
    for size in (8, 16):
        for caches in ({}, {"caches": "warm"}, {"caches": "flushed"}):  # older ones do not tell
            for kernel in ("one", "two", "three"):
                each = item(kernel, params={"size": size, **caches})
                write(tmp_path / "r.jsonl", each)
    found = {(plot.where.partition("precision")[2], plot.title): plot for plot in plots(tmp_path)}
    assert {state for state, _ in found} == {"", ", caches flushed"}
    for state in ("", ", caches flushed"):
        assert len(found[state, "GFLOPS over size"].rows) == 6
