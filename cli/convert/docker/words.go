package docker

import (
	"errors"
	"strings"
)

// SplitWords splits a text into words as a shell does, with quotes and backslashes, but without
// variables or any other expansion.
func SplitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\n', '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("has a quote ' that is not closed")
			}
			word.WriteString(text[i+1 : i+1+end])
			i += end + 1
			inWord = true
		case '"':
			length, err := doubleQuoted(text[i+1:], &word)
			if err != nil {
				return nil, err
			}
			i += length
			inWord = true
		case '\\':
			if i++; i == len(text) {
				return nil, errors.New("ends with a backslash")
			}
			if text[i] != '\n' {
				word.WriteByte(text[i])
				inWord = true
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// doubleQuoted appends the text up to the closing quote, and returns how many bytes it took.
func doubleQuoted(text string, word *strings.Builder) (int, error) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\' && i+1 < len(text) && strings.IndexByte("\"\\$`\n", text[i+1]) >= 0:
			i++
			if text[i] != '\n' {
				word.WriteByte(text[i])
			}
		default:
			word.WriteByte(c)
		}
	}
	return 0, errors.New(`has a quote " that is not closed`)
}

// Escape returns a word that Kubernetes expands to this one: in command, args and the values of
// variables, $(NAME) is a reference and $$ is a dollar sign.
func Escape(word string) string {
	if !strings.Contains(word, "$$") && !strings.Contains(word, "$(") {
		return word
	}
	return strings.ReplaceAll(word, "$", "$$")
}

// EscapeAll returns the words escaped.
func EscapeAll(words []string) []string {
	var escaped []string
	for _, w := range words {
		escaped = append(escaped, Escape(w))
	}
	return escaped
}
