// NCCL's topology dumps (NCCL_TOPO_DUMP_FILE) and graph files: the small part of XML that they use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/fabric.h"

namespace specstep::comm {

struct XmlElement {
  std::string name;
  int line = 0;
  int column = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  const std::string* attribute(std::string_view key) const;
  /// The attribute, or "" when there is none.
  std::string text(std::string_view key) const;
};

/// One element with its children. Comments and declarations are skipped. Throws InputError with the line: an element
/// that is not closed, a closing tag of another name, a broken attribute, text after the end.
XmlElement parse_xml(std::string_view text, const std::string& file);

/// What a <graph> element of a graph file says. Throws InputError when it is no such element.
struct NcclGraphElement {
  int pattern = 0;
  int channels = 0;
  double speed_intra = 0;  // GB/s per channel
  double speed_inter = 0;
  std::string type_intra;
  std::string type_inter;
};
NcclGraphElement graph_element(const XmlElement& element, const std::string& file);

}  // namespace specstep::comm
