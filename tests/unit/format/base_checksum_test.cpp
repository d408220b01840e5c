#include "format/base_checksum.h"

#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

// u8 tensors, each name with its shape and bytes.
struct Row {
    std::string name, shape, bytes;
};

std::string file_of(const std::vector<Row>& rows) {
    std::string header = "{", data;
    for (const Row& row : rows) {
        header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", data.empty() ? "" : ",",
                              row.name, row.shape, data.size(), data.size() + row.bytes.size());
        data += row.bytes;
    }
    return safetensors_bytes(header + "}", data);
}

// Files of a folder, in order.
std::string sum_of_shards(const std::vector<std::vector<Row>>& shards) {
    const TempFolder folder;
    write_bytes(folder / "config.json", "{\"model_type\": \"llama\"}\n");
    for (size_t shard = 0; shard < shards.size(); ++shard)
        write_bytes(folder / fmt::format("part-{}.safetensors", shard), file_of(shards[shard]));
    return base_checksum(ModelFolder::open(real_files(), folder.path()));
}

const Row kA{"a", "2", "xy"}, kB{"b", "2,2", "abcd"};

TEST(BaseChecksum, DoesNotDependOnFiles) {
    const std::string whole = sum_of_shards({{kA, kB}});
    EXPECT_EQ(whole.size(), 16u);
    EXPECT_EQ(sum_of_shards({{kB, kA}}), whole);
    EXPECT_EQ(sum_of_shards({{kB}, {kA}}), whole);
}

TEST(BaseChecksum, DependsOnNamesShapesAndBytes) {
    const std::string whole = sum_of_shards({{kA, kB}});
    EXPECT_NE(sum_of_shards({{kA, {"b", "2,2", "abce"}}}), whole);
    EXPECT_NE(sum_of_shards({{kA, {"b", "4", "abcd"}}}), whole);
    EXPECT_NE(sum_of_shards({{kA, {"b", "4,1", "abcd"}}}), whole);
    EXPECT_NE(sum_of_shards({{kA, {"c", "2,2", "abcd"}}}), whole);
    EXPECT_NE(sum_of_shards({{kB}}), whole);
    EXPECT_NE(sum_of_shards({{{"a", "3", "xya"}, {"b", "3,1", "bcd"}}}), whole) << "the same bytes, cut elsewhere";
}

}  // namespace
}  // namespace windlass
