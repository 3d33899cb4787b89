package main

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// foreignPrograms are other programs than podstead of which the pages quote command lines.
var foreignPrograms = []string{"apparmor_parser", "apt", "apt-get", "cosign", "crictl", "ctr", "dnf", "docker",
	"firewall-cmd", "flux", "git", "go", "helm", "install.sh", "iptables", "journalctl", "jq", "kubeadm", "kubectl",
	"kubelet", "kill", "lsattr", "make", "man", "minisign", "nsenter", "nvidia-ctk", "oras", "pgrep", "podman", "promtool",
	"rm", "sh", "skopeo", "ssh-keygen", "systemctl", "systemd-cgls", "systemd-inhibit", "timeout", "tune2fs", "unshare"}

// quotedFromElsewhere are quotes of several words that are neither a command line nor a message of podstead, and
// what they are.
var quotedFromElsewhere = map[string]string{
	"Operation not permitted":             "an error of the kernel",
	"Reject pods that exceed allocatable": "the subject of a commit",
	"Report a vulnerability":              "a button of GitHub",
	"Run(ctx) error":                      "code",
	"auth can-i":                          "a command of kubectl",
	"auth whoami":                         "a command of kubectl",
	"kube down":                           "a command of podman",
	"kube play":                           "a command of podman",
	"kube play --configmap FILE":          "a command of podman",
	"kube play --replace":                 "a command of podman",
	"old or new":                          "two states",
	"parser cri":                          "a setting of Fluent Bit",
	"something changed":                   "what a notification means",
	"stop supervising":                    "what the end of a context means",
	"tls internal":                        "a setting of Caddy",
	"up -d":                               "a command of docker compose",
	"upgrade apply":                       "a command of kubeadm",
	"2026-01-31T12:00:00.123456789Z stdout F text": "a line of a log",
}

// notAMessage finds settings, requests of HTTP, options, and the syntax of commands.
var notAMessage = regexp.MustCompile(
	`^[\w./-]+: ?[\w"{\[/]\S*$|^[\w./-]+: \{|^(GET|POST|DELETE) |^-|^>|=|^[A-Z_]+ |\[|\\\|`)

// verb finds a verb of a format.
var verb = regexp.MustCompile(`%[-+# 0]*[0-9.*]*(?:\[\d+\])?[a-zA-Z]`)

// value is any text in a literal of the code.
const value = "\x00"

// literals returns the words of each string of the product's code, in lower case. Each one begins and ends with a
// value, and has one for each verb and for each operand that is no literal.
func literals(t *testing.T) [][]string {
	t.Helper()
	var all [][]string
	visit := func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text, ok := literal(e)
		if ok {
			words := []string{value}
			for _, word := range strings.Fields(strings.ToLower(verb.ReplaceAllString(text, value))) {
				words = append(words, strings.TrimRight(word, ",;:.)"))
			}
			all = append(all, append(words, value))
		}
		return !ok
	}
	inspectCode(t, visit, "api", "cli", "cluster", "cmd", "config", "cri", "daemon", "gc", "httpapi", "internal",
		"manifest", "node", "probe", "supervisor")
	return all
}

// literal returns the text of a string, or of a sum of strings and other operands, and whether it is one.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, isX := literal(e.X)
		y, isY := literal(e.Y)
		if !isX {
			x = value
		}
		if !isY {
			y = value
		}
		return x + y, e.Op == token.ADD && (isX || isY)
	}
	return "", false
}

// isOf reports whether the words of a phrase follow one another in a literal. Up to half of them may be values.
func isOf(phrase, literal []string) bool {
	for at := 0; at+len(phrase) <= len(literal); at++ {
		same, all := 0, true
		for i, word := range phrase {
			switch part := literal[at+i]; {
			case part == word:
				same++
			case part == value:
			default:
				before, after, hasValue := strings.Cut(part, value)
				if all = hasValue && strings.HasPrefix(word, before) && strings.HasSuffix(word, after); all {
					same++
				}
			}
			if !all {
				break
			}
		}
		if all && 2*same >= len(phrase) {
			return true
		}
	}
	return false
}

// phrases returns the parts of a message between what looks like a value: several words of letters in lower case.
func phrases(message string) (all [][]string) {
	var words []string
	end := func() {
		if len(words) > 1 {
			all = append(all, words)
		}
		words = nil
	}
	for word := range strings.FieldsSeq(message) {
		core := strings.TrimRight(word, ",;:.)")
		if len(core) > 1 && core == strings.ToUpper(core) || strings.ContainsFunc(core,
			func(r rune) bool { return !unicode.IsLetter(r) && !strings.ContainsRune("-'(", r) }) {
			end()
			continue
		}
		words = append(words, strings.ToLower(core))
		if core != word {
			end()
		}
	}
	end()
	return all
}

// checkLine finds the lines of output in an indented block.
var checkLine = regexp.MustCompile(`^ {4,}(ok|fail|warn|fix:) `)

// splitPage returns a page without its blocks of code, and the lines of its blocks of output.
func splitPage(page string) (prose string, output []string) {
	var b strings.Builder
	var block []string
	language, inside := "", false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		fence, ok := strings.CutPrefix(line, "```")
		switch {
		case ok && inside:
			// A drawing is no output, nor is what another program prints.
			if language == "" && !strings.ContainsAny(strings.Join(block, ""), "─▶") && !strings.HasPrefix(block[0], "$ ") {
				output = append(output, block...)
			}
			inside, block = false, nil
		case ok:
			inside, language = true, fence
		case inside:
			block = append(block, line)
		case checkLine.MatchString(line):
			output = append(output, line)
		case !strings.HasPrefix(line, "    "):
			b.WriteString(line + "\n")
		}
	}
	return b.String(), output
}

// columns returns the names of columns if a line is the header of a table.
func columns(line string) (names [][]string) {
	if line != strings.ToUpper(line) {
		return nil
	}
	for _, cell := range regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), -1) {
		names = append(names, slices.Concat([]string{value}, strings.Fields(strings.ToLower(cell)), []string{value}))
	}
	return names
}

// What the pages quote as messages and as output of podstead is in the code: the words between what looks like a value
// follow one another in a string of it. So a message that is changed is changed in the pages too.
func TestQuotedMessagesExist(t *testing.T) {
	code := literals(t)
	programs := append(slices.Clone(foreignPrograms), "podstead")
	for _, c := range command().Commands() {
		programs = append(programs, c.Name())
	}
	found, foreign := 0, map[string]bool{}
	check := func(page, message string) {
		if quotedFromElsewhere[message] != "" {
			foreign[message] = true
			return
		}
		for _, phrase := range phrases(message) {
			found++
			if !slices.ContainsFunc(code, func(literal []string) bool { return isOf(phrase, literal) }) {
				t.Errorf("%s: podstead prints nothing with %q (of %q)", page, strings.Join(phrase, " "), message)
			}
		}
	}
	pages := docPages(t)
	contributing, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	pages["CONTRIBUTING.md"] = string(contributing)
	quoted := regexp.MustCompile("`([^`]+)`|\"([^\"`]+)\"")
	for page, text := range pages {
		prose, output := splitPage(text)
		for _, match := range quoted.FindAllStringSubmatch(prose, -1) {
			quote := strings.Join(strings.Fields(match[1]+match[2]), " ")
			first, _, several := strings.Cut(quote, " ")
			if several && !slices.Contains(programs, first) && !notAMessage.MatchString(quote) {
				check(page, quote)
			}
		}
		for _, line := range output {
			for _, name := range columns(line) {
				if !slices.ContainsFunc(code, func(literal []string) bool { return slices.Equal(literal, name) }) {
					t.Errorf("%s: podstead prints no column %s", page, strings.Join(name[1:len(name)-1], " "))
				}
			}
			for _, cell := range regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), -1) {
				check(page, cell)
			}
		}
	}
	for _, quote := range slices.Sorted(maps.Keys(quotedFromElsewhere)) {
		if !foreign[quote] {
			t.Errorf("no page quotes %q", quote)
		}
	}
	if found < 50 {
		t.Errorf("only %d phrases found", found)
	}
}
