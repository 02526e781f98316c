"""What a run's page holds."""

import json
import re
from pathlib import Path
from typing import Any


def page_data(page: Path) -> Any:
    """The data inside `report.html`."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    return json.loads(data)
