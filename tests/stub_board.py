"""A board in this process for experiments, and the stub sample in place of the real ones."""

import os
import shutil
import sys

from stub import Stub

from common import record
from deploy.boards import Settings
from deploy.experiments import command, file, member, records
from deploy.fleet import Board
from deploy.link import LocalLink


class Bench(Stub):
    """Boards that have the stub sample, and the results of experiments with it."""

    def __init__(self, folder, monkeypatch, capsys):
        super().__init__(folder, monkeypatch, capsys)
        self.results = folder / "results"
        for module in (command, records):
            monkeypatch.setattr(module, "RESULTS", self.results)
        monkeypatch.setattr(command, "shown", str)
        monkeypatch.setattr(member.ship, "deploy", self._deploy)

    def board(self, name="board", python=None, **env):
        """Return a Board of this machine."""
        settings = Settings(folder=str(self.root / name), env=env)
        return Board(name, settings, LocalLink(python or sys.executable))

    def _deploy(self, board):
        folder = board.settings.folder
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/suite.json", "w") as mark:
            mark.write("{}")
        shutil.copytree(self.root / "samples", f"{folder}/current/samples", dirs_exist_ok=True)

    def run(self, *boards, text="", words=(), rounds=0, **more):
        """Run an experiment of these lines on the boards; return (status, what was printed)."""
        path = self.root / "experiment.toml"
        path.write_text(f'sample = "stub"\nrounds = {rounds}\n{text}')
        asked = file.read(str(path), words, **more)
        status = command.sweep(boards or [self.board()], asked)
        return status, self._capsys.readouterr().out

    def came(self):
        """Return the records of all points."""
        return [item for path in sorted(self.results.glob("*/*/stub/*.jsonl"))
                for item in record.read(path)]
