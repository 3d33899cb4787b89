package testbed

import (
	"os"
	"path/filepath"
	"strings"
)

// PageSections returns the shell commands of a page of docs: the blocks of each section that are
// marked as sh, by the section's heading.
func PageSections(page string) (map[string][]string, error) {
	data, err := os.ReadFile(filepath.Join(SourceRoot(), "docs", page))
	if err != nil {
		return nil, err
	}
	sections := map[string][]string{}
	var heading, block string
	inside := false
	for line := range strings.Lines(string(data)) {
		switch {
		case inside && strings.HasPrefix(line, "```"):
			sections[heading] = append(sections[heading], block)
			inside = false
		case inside:
			block += line
		case line == "```sh\n":
			inside, block = true, ""
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimSpace(line[3:])
		}
	}
	return sections, nil
}
