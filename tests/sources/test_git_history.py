"""The pure part of watching a branch, against plain set arithmetic, on histories of any shape and with any clocks."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from onceflow.sources._git_history import ROOT, Commit, first_parents, move, oldest_first, reachable

History = dict[str, Commit]


def commit(number: int, parents: list[int], at: int) -> Commit:
    return Commit(sha(number), tuple(sha(p) for p in parents), "A", "a@b", at, at, f"c{number}")


def sha(number: int) -> str:
    return f"{number + 1:040x}"


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Up to 25 commits, each on up to three earlier ones, at times that need not rise."""
    commits: History = {}
    for number in range(draw(st.integers(1, 25))):
        parents = draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else []
        made = commit(number, parents, draw(st.integers(0, 30)))
        commits[made.sha] = made
    return commits


def ancestors(history: History, start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo += history[at].parents
    return found


@given(histories(), st.data())
def test_new_is_what_is_reachable_from_head_and_not_from_cursor(history: History, data: st.DataObject) -> None:
    shas = sorted(history)
    head, cursor = data.draw(st.sampled_from(shas)), data.draw(st.sampled_from([*shas, ROOT]))
    expected = ancestors(history, head) - (ancestors(history, cursor) if cursor != ROOT else set())
    assert reachable(head, cursor, history.get).keys() == expected


@given(histories(), st.randoms(use_true_random=False))
def test_parents_come_first_and_the_order_is_always_the_same(history: History, chance: random.Random) -> None:
    order = [commit.sha for commit in oldest_first(history)]
    assert sorted(order) == sorted(history)
    place = {sha: n for n, sha in enumerate(order)}
    assert all(place[parent] < place[c.sha] for c in history.values() for parent in c.parents)
    shuffled = list(history.items())
    chance.shuffle(shuffled)
    assert [commit.sha for commit in oldest_first(dict(shuffled))] == order


@given(histories(), st.data())
def test_going_on_from_any_commit_of_the_order_misses_none_after_it(history: History, data: st.DataObject) -> None:
    head = data.draw(st.sampled_from(sorted(history)))
    order = [commit.sha for commit in oldest_first(reachable(head, ROOT, history.get))]
    for position, cursor in enumerate(order):
        again = {c.sha for c in move(head, cursor, reachable(head, cursor, history.get)).commits}
        assert set(order[position + 1 :]) <= again


@given(histories(), st.data())
def test_a_move_is_judged_by_ancestry(history: History, data: st.DataObject) -> None:
    shas = sorted(history)
    head, cursor = data.draw(st.sampled_from(shas)), data.draw(st.sampled_from(shas))
    result = move(head, cursor, reachable(head, cursor, history.get))
    if head in ancestors(history, cursor):
        assert result.commits == ()
        assert not result.forced
        return
    assert result.commits[-1].sha == head
    assert result.forced == (cursor not in ancestors(history, head))


def test_wrong_clocks_deep_in_history_do_not_bring_old_commits_back() -> None:
    """A cursor whose commit claims to be from 1970, beside a history of thousands."""
    history: History = {}
    for number in range(3000):
        made = commit(number, [number - 1] if number else [], 1_000_000 + number)
        history[made.sha] = made
    cursor = commit(3000, [2999], 0)
    head = commit(3001, [2999], 1_003_001)
    history |= {cursor.sha: cursor, head.sha: head}
    result = move(head.sha, cursor.sha, reachable(head.sha, cursor.sha, history.get))
    assert result.forced
    assert [c.sha for c in result.commits] == [head.sha]


def test_a_short_way_forward_reads_few_commits_of_a_long_history() -> None:
    history: History = {}
    for number in range(20_000):
        made = commit(number, [number - 1] if number else [], number)
        history[made.sha] = made
    read: list[str] = []

    def load(wanted: str) -> Commit | None:
        read.append(wanted)
        return history[wanted]

    assert len(reachable(sha(19_999), sha(19_990), load)) == 9
    assert len(read) < 1_100


def test_first_parents_are_what_landed_on_the_branch() -> None:
    #  0 - 1 ----- 4 (merge of 3)     2 and 3 are on a side branch
    #    \ 2 - 3 /
    made = [commit(0, [], 0), commit(1, [0], 1), commit(2, [0], 2), commit(3, [2], 3), commit(4, [1, 3], 4)]
    order = oldest_first({c.sha: c for c in made[1:]})
    assert [c.message for c in first_parents(order)] == ["c1", "c4"]
