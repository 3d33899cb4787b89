package docker

import (
	"fmt"
	"strings"
)

// EnvLine is a variable of an env file.
type EnvLine struct {
	Line        int
	Name, Value string
	// Set is false for a name alone, whose value is that of the environment.
	Set bool
}

// ParseEnvFile parses an env file. Values may be quoted; those that are not in single quotes have
// variables, which expand replaces, if it is not nil.
func ParseEnvFile(text string, expand func(string) (string, error)) ([]EnvLine, error) {
	var all []EnvLine
	rows := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := 0; i < len(rows); i++ {
		row := strings.TrimSpace(rows[i])
		if row == "" || row[0] == '#' {
			continue
		}
		line := i + 1
		row = strings.TrimPrefix(row, "export ")
		name, value, set := strings.Cut(row, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if name == "" || strings.ContainsAny(name, " \t\"'") {
			return nil, fmt.Errorf("line %d is not NAME=VALUE", line)
		}
		literal := false
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			quote := value[0]
			rest := value[1:]
			end := closingQuote(rest, quote)
			for ; end < 0 && i+1 < len(rows); end = closingQuote(rest, quote) {
				i++
				rest += "\n" + rows[i]
			}
			if end < 0 {
				return nil, fmt.Errorf("the quote that line %d opens is not closed", line)
			}
			value = rest[:end]
			if literal = quote == '\''; !literal {
				value = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\\`, `\`).Replace(value)
			}
		} else if at := strings.Index(value, " #"); at >= 0 {
			value = strings.TrimSpace(value[:at])
		}
		if expand != nil && !literal && strings.Contains(value, "$") {
			expanded, err := expand(value)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			value = expanded
		}
		all = append(all, EnvLine{Line: line, Name: name, Value: value, Set: set})
	}
	return all, nil
}

// closingQuote returns the index of a quote that no backslash escapes.
func closingQuote(text string, quote byte) int {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && quote == '"' {
			i++
		} else if text[i] == quote {
			return i
		}
	}
	return -1
}
