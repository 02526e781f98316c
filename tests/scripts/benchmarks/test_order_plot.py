import numpy as np
import pytest
from PIL import Image

from scripts.benchmarks.order_plot import plot_order


@pytest.mark.parametrize("count", [1, 5])
def test_one_board_for_each_order(tmp_path, count) -> None:
    order = np.linspace(0.0, 1.0, 16).reshape(4, 4)
    order[1, 2] = np.nan
    plot_order({f"order {number}": order for number in range(count)}, tmp_path / "order.png")
    assert [path.name for path in tmp_path.iterdir()] == ["order.png"]
    with Image.open(tmp_path / "order.png") as picture:
        colors = {color for _, color in picture.convert("RGB").getcolors(1 << 24)}
        height = picture.height
    assert {(68, 1, 84), (253, 231, 36)} <= colors  # the ends of viridis
    assert (height > 600) == (count > 4)
