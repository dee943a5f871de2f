"""Tables of profilers are read by what their columns mean, as a stream, whatever is wrong with them."""

import tracemalloc

import pytest

from doctor import profile
from doctor.profile import tables

OPERATORS = (
    "Device_id,Op Name,OP Type,Task Type,Task Duration(us),Task Wait Time(us)\n"
    "0,a/MatMul-op1,MatMulV3,AI_CORE,2000,1\n0,b/Cast-op1,Cast,AI_VECTOR_CORE,500,1\n"
    "0,c/TopK-op1,TopK,AI_CPU,500,1\n0,hcom_allReduce__1_1,hcom_allReduce_,HCCL,900,1\n"
)


def read(text, size=7):
    data = text if isinstance(text, bytes) else text.encode()
    return profile.read("x.csv", "csv", [data[n : n + size] for n in range(0, len(data), size)])


def classes(table):
    (sums,) = table.data["devices"].values()
    return {name: time for name, time in sums["classes"].items() if time}


WANTED = {"matmul": 2.0, "copy": 0.5, "aicpu": 0.5, "communication": 0.9}


def test_operators_are_summed_by_class_in_ms():
    assert classes(read(OPERATORS)) == WANTED


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("Task Duration(us)", "Duration(us)").replace("Task Type", "Accelerator Core"),
        lambda t: t.replace("Op Name", "kernel_name").replace("Task Type", "kernel_type"),
        lambda t: t.replace("Duration(us)", "Duration(ms)").replace("00,1\n", ",1\n").replace(",20,", ",2,")
        .replace(",5,", ",0.5,").replace(",9,", ",0.9,"),
        lambda t: t.replace("\n", "\r\n"),
        lambda t: "\ufeff" + t,
        lambda t: "\n\n" + t,
        lambda t: t.replace(",", ";"),
        lambda t: t.replace(",", "\t"),
        lambda t: t.replace(",2000,", ',"2,000",'),
        lambda t: t.replace(",2000,", ",2000\t,"),
        lambda t: t.replace("a/MatMul-op1", '"a,b/MatMul-op1"'),
        lambda t: t.replace("Device_id", "Unheard Of"),
        lambda t: t.replace("a/MatMul", "层/MatMul").encode("gb18030"),
    ],
)  # fmt: skip
def test_other_names_units_and_encodings_say_the_same(change):
    table = read(change(OPERATORS))
    assert (classes(table), table.rows, table.bad) == (WANTED, 4, 0)


def test_a_decimal_comma_goes_with_semicolons():
    text = "Step;Computing;Free\n1;1.234,5;10,5\n"
    assert read(text).data["rows"][0]["computing"] == pytest.approx(1.2345)


def test_rows_that_cannot_be_read_are_counted():
    table = read(OPERATORS + "0,x\n0,a,MatMul,AI_CORE,N/A,1\n0,a,MatMul,AI_CORE,-5,1\n0,a,MatMul,AI_CORE,inf,1\n")
    assert (table.rows, table.bad, classes(table)) == (4, 4, WANTED)


def test_a_quote_that_nobody_closes_costs_one_row():
    table = read(OPERATORS.replace("b/Cast-op1", '"b/Cast-op1'))
    assert (table.rows, table.bad) == (3, 1)


def test_columns_that_are_missing_or_not_used_are_named():
    table = read(OPERATORS.replace("Task Wait Time(us)", "Block Dim"))
    assert table.unused == ("Block Dim",)
    assert "op state" in table.missing


def test_an_unknown_table_says_its_columns_and_no_row():
    table = read("Api Name,Level,Count,Time(us)\nlaunch,node,3,4\n")
    assert (table.kind, table.unused) == ("unknown", ("Api Name", "Level", "Count", "Time(us)"))
    assert "Api Name, Level" in profile.unread(table)["en"]
    assert profile.kind_of(b"Api Name,Level,Count,Time(us)\nlaunch,node,3,4\n") == ""


@pytest.mark.parametrize(
    "text", ["", "\n", ",", "a,b", "Step,Computing,Free", '"', "\0,\0", "Step,Computing,Free\n,,\n"]
)
def test_nothing_in_a_table_is_no_failure(text):
    table = read(text)
    assert table.rows == 0
    assert profile.unread(table)["zh"]


def test_tables_of_older_versions_are_in_ms():
    table = read("op_type,execution_time,execution_frequency,percent\nMatMul,12.5,4,80\nCast,3.5,2,20\n")
    assert (table.kind, classes(table)) == ("statistic", {"matmul": 12.5, "copy": 3.5})
    table = read(
        "serial_number,kernel_type,total_time,dispatch_time,execution_time,run_start,run_end\n1,InitData,7.9,0,7,1,2\n"
    )
    assert (table.kind, table.data["nodes"]) == ("aicpu", {"InitData": [1, 7.9]})


def test_a_table_of_communication_alone_holds_no_operators():
    table = read(
        "OP Type,Count,Total Time(us),Min Time(us),Ratio(%)\nhcom_allReduce_,4,900.0,1.0,90\nallGather,1,100,1,10\n"
    )
    assert classes(table) == {"communication": pytest.approx(1.0)}


def test_types_lines_and_devices_are_bounded():
    rows = "".join(f"{n},op,Type{n},AI_CORE,1,1\n" for n in range(3000))
    table = read(OPERATORS + rows + "0," + "x" * (tables.LINE + 10) + ",MatMul,AI_CORE,1,1\n", 1 << 16)
    assert len(table.data["devices"]) <= 65
    assert all(len(sums["types"]) <= tables.TYPES + 1 for sums in table.data["devices"].values())
    assert sum(sums["total"] for sums in table.data["devices"].values()) == pytest.approx(3.9 + 3.0)


def test_memory_does_not_grow_with_the_file():
    row = b"0,a/MatMul-op1,MatMulV3,AI_CORE,2000,1\n"
    head = OPERATORS.split("\n", 1)[0].encode() + b"\n"

    def chunks(count):
        yield head
        for _ in range(count):
            yield row * 1000

    tracemalloc.start()
    table = profile.read("x.csv", "csv", chunks(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.rows == 100_000
    assert peak < 4 << 20, "4 MB of tables"


def test_reading_can_be_stopped():
    text = OPERATORS + "0,a/MatMul-op1,MatMulV3,AI_CORE,2000,1\n" * 9000
    table = profile.read("x.csv", "csv", [text.encode()], lambda: True)
    assert table.cut
    assert table.rows < 9000


@pytest.mark.parametrize(
    ("kind", "core", "name", "wanted"),
    [
        ("MatMulV2", "AI_CORE", "", "matmul"), ("BatchMatMul", "MIX_AIC", "", "matmul"),
        ("GroupedMatmul", "MIX_AIC", "", "matmul"), ("FlashAttentionScoreGrad", "MIX_AIC", "", "attention"),
        ("TransData", "AI_VECTOR_CORE", "", "copy"), ("RmsNorm", "AI_VECTOR_CORE", "", "vector"),
        ("Add", "AI CORE", "", "vector"), ("TopK", "AI_CPU", "", "aicpu"), ("x", "KERNEL_AICPU", "", "aicpu"),
        ("allReduce", "COMMUNICATION", "", "communication"), ("N/A", "AI_CORE", "hcom_send__1", "communication"),
        ("N/A", "KERNEL_AICORE", "net/MatMulV3", "matmul"), ("x", "MEMCPY_ASYNC", "", "memcpy"),
        ("x", "EVENT_RECORD", "", "other"), ("ScatterNdUpdate", "AI_VECTOR_CORE", "", "vector"),
    ],
)  # fmt: skip
def test_operators_have_a_class(kind, core, name, wanted):
    assert tables.op_class(kind, core, name) == wanted


def test_lines_are_the_same_however_they_are_cut():
    text = "a\r\nb\n\n中文\nend".encode()
    whole = list(tables.lines([text]))
    assert whole == [(1, "a"), (2, "b"), (3, ""), (4, "中文"), (5, "end")]
    assert all(list(tables.lines([text[:n], text[n:]])) == whole for n in range(len(text)))
