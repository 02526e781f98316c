"""The client: one session with a server of the environment, over a WebSocket."""

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

from sudoku_env.integrations.openenv.models import SudokuAction, SudokuObservation, SudokuState


class SudokuClient(EnvClient[SudokuAction, SudokuObservation, SudokuState]):
    """A player's end of the connection.

    ```python
    with SudokuClient(base_url="http://127.0.0.1:8000").sync() as client:
        result = client.reset(seed=0, size=4)
        result = client.step(SudokuAction(message="place 1 2 3"))
    ```
    """

    def _step_payload(self, action: SudokuAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[SudokuObservation]:
        done, reward = payload.get("done", False), payload.get("reward")
        observation = SudokuObservation(**payload.get("observation", {}) | {"done": done, "reward": reward})
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> SudokuState:
        return SudokuState(**payload)
