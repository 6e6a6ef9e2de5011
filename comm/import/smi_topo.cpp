// Reading the text of `nvidia-smi topo -m`, as users paste it.
#include "comm/import/smi_topo.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

const std::vector<std::string> class_names{"X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS"};
const std::vector<std::string> status_words{"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"};

constexpr int most_bonded = 64;  // as the width of a link type

struct Line {
  int number = 0;
  std::vector<std::string> cells = {};  // trimmed; empty ones kept
  std::vector<int> columns = {};        // where each begins, from 1
};

std::string without_colours(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      while (i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
      continue;
    }
    if (text[i] != '\r') plain += text[i];
  }
  return plain;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

Line split(int number, const std::string& line) {
  Line parted{number};
  const auto add = [&](std::size_t begin, std::size_t end) {
    const std::string_view cell = std::string_view(line).substr(begin, end - begin);
    const std::size_t first = std::min(cell.find_first_not_of(" \t"), cell.size());
    parted.cells.push_back(trimmed(cell));
    parted.columns.push_back(static_cast<int>(begin + first) + 1);
  };
  const bool tabs = line.find('\t') != std::string::npos;
  for (std::size_t begin = 0; begin <= line.size();) {
    if (!tabs) begin = line.find_first_not_of(' ', begin);  // pasted with spaces
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(line.find(tabs ? '\t' : ' ', begin), line.size());
    add(begin, end);
    begin = end + 1;
  }
  return parted;
}

std::optional<int> number_after(const std::string& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data() + prefix.size(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_gpu(const std::string& name) { return number_after(name, "GPU").has_value(); }
bool is_nic(const std::string& name) {
  return number_after(name, "NIC").has_value() || name.starts_with("mlx") || name.starts_with("bnxt") ||
         name.starts_with("irdma");
}

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  const std::string plain = without_colours(text);
  std::size_t begin = 0;
  for (int number = 1; begin < plain.size(); ++number) {
    const std::size_t end = std::min(plain.find('\n', begin), plain.size());
    const std::string line = plain.substr(begin, end - begin);
    if (!trimmed(line).empty()) lines.push_back(split(number, line));
    begin = end + 1;
  }
  return lines;
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  SmiMatrix read(std::string_view text) {
    const std::vector<Line> lines = lines_of(text);
    std::size_t i = 0;
    while (i < lines.size() && !header(lines[i])) ++i;
    if (matrix_.gpus.empty()) refuse(1, "no GPU columns", "the output of nvidia-smi topo -m");
    for (++i; i < lines.size(); ++i)
      if (is_gpu(lines[i].cells[0])) row(lines[i]);
    finish();
    return std::move(matrix_);
  }

 private:
  [[noreturn]] void refuse(int line, const std::string& what, const std::string& allowed, int column = 1) const {
    throw InputError({{file_, line, column}, "", what, allowed});
  }

  bool header(const Line& line) {
    std::vector<std::string> devices;
    std::vector<std::string> gpus;
    for (const std::string& cell : line.cells) {
      if (cell.empty() && devices.empty()) continue;
      if (!is_gpu(cell) && !is_nic(cell)) break;
      devices.push_back(cell);
      if (is_gpu(cell)) gpus.push_back(cell);
      if (is_nic(cell)) ++matrix_.nics;
    }
    if (gpus.empty() || devices.size() < gpus.size()) return false;
    const bool is_row = is_gpu(line.cells[0]) && line.cells.size() > 1 &&
                        (line.cells[1].starts_with("NV") ||
                         std::find(class_names.begin(), class_names.end(), line.cells[1]) != class_names.end());
    if (is_row) return false;
    devices_ = devices;
    matrix_.gpus = gpus;
    header_line_ = line.number;
    for (std::size_t c = 0; c < line.cells.size(); ++c)
      if (line.cells[c] == "NUMA Affinity") numa_column_ = c;
    return true;
  }

  PairCell cell(const Line& line, std::size_t index) const {
    const std::string& text = line.cells[index];
    const int column = line.columns[index];
    if (text == "X") return {PairClass::self, 0};
    if (const auto links = number_after(text, "NV"); links && *links > 0) {
      if (*links > most_bonded)
        refuse(line.number, "'" + text + "' NVLinks", formatted("NV1 to NV{}", most_bonded), column);
      return {PairClass::nvlink, *links};
    }
    for (std::size_t k = 2; k < class_names.size(); ++k)
      if (text == class_names[k]) return {static_cast<PairClass>(k), 0};
    if (std::find(status_words.begin(), status_words.end(), text) != status_words.end())
      refuse(line.number, "'" + text + "' is a P2P status and not a class of links",
             "the output of nvidia-smi topo -m, without -p2p", column);
    refuse(line.number, "'" + text + "' is not a class of links", "X, NV#, PIX, PXB, PHB, NODE or SYS", column);
  }

  void row(const Line& line) {
    const std::string& name = line.cells[0];
    const std::size_t expected = matrix_.cells.size();
    if (expected >= matrix_.gpus.size() || matrix_.gpus[expected] != name)
      refuse(line.number, "row of " + name,
             expected < matrix_.gpus.size() ? "the row of " + matrix_.gpus[expected] : "no more rows of GPUs");
    std::vector<PairCell> cells;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (d + 1 >= line.cells.size() || line.cells[d + 1].empty())
        refuse(line.number, "no cell for " + devices_[d], formatted("{} cells", devices_.size()), line.columns.back());
      if (is_gpu(devices_[d])) cells.push_back(cell(line, d + 1));
    }
    if (cells[expected].kind != PairClass::self) refuse(line.number, "no X for " + name + " itself", "X");
    matrix_.cells.push_back(std::move(cells));
    row_lines_.push_back(line.number);
    std::optional<int> numa;
    // The header's first cell stands above the row names.
    if (numa_column_ > 0 && numa_column_ < line.cells.size()) numa = number_after(line.cells[numa_column_], "");
    matrix_.numa.push_back(numa);
  }

  void finish() const {
    if (matrix_.cells.size() < matrix_.gpus.size())
      refuse(row_lines_.empty() ? header_line_ : row_lines_.back(),
             "the row of " + matrix_.gpus[matrix_.cells.size()] + " is missing",
             formatted("{} rows", matrix_.gpus.size()));
    for (std::size_t a = 0; a < matrix_.cells.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const PairCell& here = matrix_.cells[a][b];
        const PairCell& mirror = matrix_.cells[b][a];
        if (here == mirror && here.kind != PairClass::self) continue;
        refuse(row_lines_[a],
               formatted("{} to {} is {}, the other way {}", matrix_.gpus[a], matrix_.gpus[b], class_name(here),
                         class_name(mirror)),
               "a symmetric matrix");
      }
    require_tree();
  }

  /// Distances over PCIe are those of a tree: of three GPUs no pair is further apart than both others.
  void require_tree() const {
    const auto pcie = [&](std::size_t a, std::size_t b) { return matrix_.cells[a][b].kind != PairClass::nvlink; };
    for (std::size_t a = 0; a < matrix_.cells.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        for (std::size_t via = 0; via < matrix_.cells.size(); ++via) {
          if (via == a || via == b || !pcie(a, b) || !pcie(a, via) || !pcie(via, b)) continue;
          const PairCell& one = matrix_.cells[a][via];
          const PairCell& other = matrix_.cells[via][b];
          if (matrix_.cells[a][b].kind <= std::max(one.kind, other.kind)) continue;
          refuse(row_lines_[a],
                 formatted("{} to {} is {}, but {} is {} from the one and {} from the other", matrix_.gpus[a],
                           matrix_.gpus[b], class_name(matrix_.cells[a][b]), matrix_.gpus[via], class_name(one),
                           class_name(other)),
                 "distances that fit each other");
        }
  }

  const std::string& file_;
  SmiMatrix matrix_;
  std::vector<std::string> devices_;
  std::vector<int> row_lines_;
  int header_line_ = 1;
  std::size_t numa_column_ = 0;
};

}  // namespace

SmiMatrix parse_smi_topo(std::string_view text, const std::string& file) { return Reader(file).read(text); }

std::string class_name(const PairCell& cell) {
  const std::string& name = class_names[static_cast<std::size_t>(cell.kind)];
  return cell.kind == PairClass::nvlink ? name + std::to_string(cell.nvlinks) : name;
}

std::map<std::string, int> SmiMatrix::pair_counts() const {
  std::map<std::string, int> counts;
  for (std::size_t a = 0; a < cells.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) ++counts[class_name(cells[a][b])];
  return counts;
}

bool SmiMatrix::full_nvlink() const {
  for (std::size_t a = 0; a < cells.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (cells[a][b].kind != PairClass::nvlink) return false;
  return cells.size() > 1;
}

PairClass SmiMatrix::slowest() const {
  PairClass worst = PairClass::self;
  for (const auto& row : cells)
    for (const PairCell& cell : row) worst = std::max(worst, cell.kind);
  return worst;
}

int SmiMatrix::ring_crossings() const {
  std::vector<int> group(cells.size(), -1);
  int groups = 0;
  const std::function<void(std::size_t)> mark = [&](std::size_t a) {
    group[a] = groups;
    for (std::size_t b = 0; b < cells.size(); ++b)
      if (group[b] < 0 && cells[a][b].kind != PairClass::sys) mark(b);
  };
  for (std::size_t a = 0; a < cells.size(); ++a) {
    if (group[a] >= 0) continue;
    mark(a);
    ++groups;
  }
  return groups > 1 ? groups : 0;
}

int SmiMatrix::nvlinks_of(std::size_t gpu) const {
  int links = 0;
  for (const PairCell& cell : cells[gpu]) links += cell.nvlinks;
  return links;
}

}  // namespace specstep::comm
