// A fixed piece of work for the compiler: budget.py counts the CPU seconds of a step in those of this file.
#include <algorithm>
#include <regex>
#include <string>
#include <vector>

int main() {
    std::vector<std::string> words{"one", "two", "three"};
    std::sort(words.begin(), words.end(), [](const auto &a, const auto &b) { return a.size() > b.size(); });
    return std::regex_search(words[0], std::regex("t.*e"));
}
