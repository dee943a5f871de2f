"""doctor.version: our own order of versions, alpha < beta < rc < release < build behind it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.version import AscendVersion, in_range

# rising; each family as its vendor numbers it
LADDERS = [
    ["8.0.RC1.alpha001", "8.0.RC1.alpha003", "8.0.RC1", "8.0.RC1.1", "8.0.RC2", "8.0.RC3", "8.0.0", "8.0.1"],
    ["7.0.0", "7.0.1", "7.0.1.1", "7.1.RC1", "8.0.0.alpha001", "8.0.0.alpha002", "8.0.0"],
    ["9.1.0-alpha.2", "9.1.0-beta.1", "9.1.0-beta.3", "9.1.0-rc1", "9.1.0"],
    ["2.0.0-alpha", "2.0.0-beta", "2.0.0-rc1", "2.0.0"],
    ["2.2.14", "2.3.0rc1", "2.3.0rc2", "2.3.0", "2.3.1", "2.4.0", "2.10.0"],
    ["23.0.3", "23.0.6", "24.1.rc1", "24.1.rc2", "24.1.rc2.b030", "24.1.rc3", "24.1.0", "24.1.0.3", "25.0.rc1"],
    ["1.0", "1.0.post1", "1.0.1"],
    ["8.2.RC1", "8.3.RC1.alpha003", "8.3.RC1", "8.3.RC2", "8.5.0"],
]


@pytest.mark.parametrize("ladder", LADDERS, ids=lambda ladder: ladder[-1])
def test_versions_rise_as_the_vendor_releases_them(ladder):
    for low, high in itertools.combinations(ladder, 2):
        assert AscendVersion(low) < AscendVersion(high), (low, high)
        assert AscendVersion(high) > AscendVersion(low) and AscendVersion(low) != AscendVersion(high)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("8.0", "8.0.0"),
        ("v2.3.1", "2.3.1"),
        ("8.0.RC1", "8.0.rc1"),
        ("2.3", "2.3.0"),
        ("2.4.0+cpu", "2.4.0"),
        ("8.0.RC1.alpha003", "8.0.rc1.alpha3"),
        (" 2.3.0 ", "2.3.0"),
    ],
)
def test_spellings_of_one_version_are_equal(one, other):
    assert AscendVersion(one) == AscendVersion(other)
    assert hash(AscendVersion(one)) == hash(AscendVersion(other))


@pytest.mark.parametrize("text", ["", "rc1", "unknown", "-1", "V", "  ", ".5"])
def test_text_without_a_leading_number_is_no_version(text):
    with pytest.raises(ValueError, match="not a version"):
        AscendVersion(text)


def test_a_version_is_not_equal_to_a_text():
    assert AscendVersion("8.0") != "8.0"


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 30), min_size=1, max_size=4), st.sampled_from(["", "rc1", "alpha2", "beta1"])
        ),
        min_size=3,
        max_size=3,
    )
)
def test_the_order_is_total_and_transitive(parts):
    a, b, c = sorted(AscendVersion(".".join(map(str, numbers)) + stage) for numbers, stage in parts)
    assert a <= b <= c and a <= c
    assert (a < b) + (a == b) + (b < a) == 1


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_plain_numbers_are_ordered_like_padded_tuples(one, other):
    pad = max(len(one), len(other))
    expected = [*one, *[0] * (pad - len(one))] < [*other, *[0] * (pad - len(other))]
    assert (AscendVersion(".".join(map(str, one))) < AscendVersion(".".join(map(str, other)))) == expected


@pytest.mark.parametrize(
    ("version", "ranges", "inside"),
    [
        ("2.3.0", ">=2.3", True),
        ("2.3.0rc2", ">=2.3", False),
        ("2.8.0", "<2.8", False),
        ("2.7.9", "<2.8", True),
        ("2.3.1", "==2.3", True),
        ("2.30.1", "==2.3", False),
        ("2.3.1", "!=2.3", False),
        ("2.4.0", "!=2.3", True),
        ("2.3.1", "==2.3.0", False),
        ("8.0.RC1.alpha003", ">=8.0.RC1", False),
        ("8.0.RC1.1", ">8.0.RC1", True),
        ("8.0.RC3", "<=8.0.RC3", True),
        ("2.5.1", ">=2.3,<2.8", True),
        ("2.5.1", ">=2.3, <2.8, !=2.5", False),
        ("2.10.0", ">2.9", True),
        ("25.5", ">=24.1.rc2.b030", True),
    ],
)
def test_ranges_take_and_leave_versions(version, ranges, inside):
    assert in_range(version, ranges) is inside


@pytest.mark.parametrize("version", ["8.0.RC1", "8.0.RC2", "8.0.0", "8.1.RC1"])
def test_a_community_edition_is_at_the_level_of_its_release(version):
    # CANN's community downloads are named 8.0.RC2.beta1 and 8.0.0.beta1 where the commercial ones are 8.0.RC2 and
    # 8.0.0; the install guides of MindSpore and mindformers name either (mindformers r1.1.0 README, MindSpore 2.2 pip)
    assert in_range(f"{version}.beta1", f">={version}")
    assert not in_range(f"{version}.beta1", f"<{version}")


@pytest.mark.parametrize("ranges", ["", "~2.3", "2.3", ">=", ">=2.3,,<3", "=>2.3", ">=x"])
def test_a_malformed_range_raises(ranges):
    with pytest.raises(ValueError, match="not a version"):
        in_range("2.3.0", ranges)


def test_a_malformed_version_raises():
    with pytest.raises(ValueError, match="not a version"):
        in_range("unknown", ">=2.3")


@given(st.text(max_size=40))
def test_any_text_is_a_version_or_a_value_error(text):
    try:
        version = AscendVersion(text)
    except ValueError:
        return
    assert version == AscendVersion(text) and version <= version
