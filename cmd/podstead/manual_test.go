package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualDirectory is where TestManual writes the manual pages; build/release reads them there.
var manualDirectory = flag.String("manual", "", "write the manual pages into this directory")

// TestManual writes a manual page for each command, from the same texts as its help, and checks
// their form with groff, where it is installed.
func TestManual(t *testing.T) {
	dir := cmp.Or(*manualDirectory, t.TempDir())
	var files []string
	eachPage(command(), func(c *cobra.Command) {
		page := manualPage(c)
		file := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		eachFlag(c, func(f *pflag.Flag) {
			if !strings.Contains(page, `\-\-`+roff(f.Name)) {
				t.Errorf("%s: --%s is missing", file, f.Name)
			}
		})
	})
	if len(files) < 20 {
		t.Errorf("only %d pages", len(files))
	}
	if groff, err := exec.LookPath("groff"); err == nil && *manualDirectory == "" {
		complaints, err := exec.CommandContext(t.Context(), groff,
			append([]string{"-man", "-Kutf8", "-Tutf8", "-ww", "-z"}, files...)...).CombinedOutput()
		if err != nil || len(complaints) > 0 {
			t.Errorf("groff: %v\n%s", err, complaints)
		}
	}
}

func eachPage(c *cobra.Command, do func(*cobra.Command)) {
	if !c.IsAvailableCommand() && c.HasParent() {
		return
	}
	do(c)
	for _, sub := range c.Commands() {
		eachPage(sub, do)
	}
}

// eachFlag calls do for each flag of a command that its help shows.
func eachFlag(c *cobra.Command, do func(*pflag.Flag)) {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	for _, set := range []*pflag.FlagSet{c.NonInheritedFlags(), c.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Deprecated == "" {
				do(f)
			}
		})
	}
}

// manualPage returns the manual page of a command, in the macros of man(7).
func manualPage(c *cobra.Command) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	day := time.Unix(0, 0).UTC()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		day = time.Unix(seconds, 0).UTC()
	}
	line(`.TH "%s" 1 "%s" "podstead %s" "podstead manual"`, strings.ToUpper(roff(name)), day.Format(time.DateOnly),
		roff(cmp.Or(os.Getenv("VERSION"), "devel")))
	line(".nh\n.ad l")
	line(".SH NAME\n%s \\- %s", roff(name), roff(lowerFirst(c.Short)))
	usage := strings.TrimPrefix(c.UseLine(), c.CommandPath())
	if c.HasAvailableSubCommands() {
		usage = " COMMAND [flags]"
	}
	line(".SH SYNOPSIS\n.B %s\n%s", roff(c.CommandPath()), roff(strings.TrimSpace(usage)))
	line(".SH DESCRIPTION\n%s", paragraphs(cmp.Or(c.Long, c.Short+".")))
	if c.HasAvailableSubCommands() {
		line(".SH COMMANDS")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				line(".TP\n.BR %s (1)\n%s", roff(name+"-"+sub.Name()), roff(sub.Short))
			}
		}
	}
	line(".SH OPTIONS")
	eachFlag(c, func(f *pflag.Flag) { line("%s", option(f)) })
	if c.HasExample() {
		line(".SH EXAMPLES\n.nf\n%s\n.fi", preformatted(c.Example))
	}
	if !c.HasParent() {
		line(".SH EXIT STATUS\n%s", exitStatus())
		line(".SH FILES\n%s", strings.TrimSuffix(manualFiles, "\n"))
	}
	line(".SH SEE ALSO")
	if c.HasParent() {
		line(".BR %s (1)", roff(strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")))
	} else {
		line("The documentation in /usr/share/doc/podstead/ and at https://github.com/podstead/podstead")
	}
	return b.String()
}

const manualFiles = `.TP
.I /etc/pods
the directory of manifests that podstead runs
.TP
.I /var/lib/podstead
what podstead stores: the manifests in effect, records of pods, volumes
.TP
.I /run/podstead/podstead.sock
the socket of the daemon, which the commands use
.TP
.I /var/log/pods
the logs of containers
`

func option(f *pflag.Flag) string {
	value, usage := pflag.UnquoteUsage(f)
	names := `\fB\-\-` + roff(f.Name) + `\fR`
	if f.Shorthand != "" {
		names = `\fB\-` + f.Shorthand + `\fR, ` + names
	}
	if value != "" {
		names += ` \fI` + roff(value) + `\fR`
	}
	switch f.DefValue {
	case "", "false", "0", "[]", "0s", "<nil>":
	default:
		if !strings.Contains(usage, "default") {
			usage += " (default " + f.DefValue + ")"
		}
	}
	return ".TP\n" + names + "\n" + roff(usage)
}

// exitStatus returns the table of exit codes of docs/cli.md.
func exitStatus() string {
	data, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		return roff(err.Error())
	}
	_, section, _ := strings.Cut(string(data), "\n## Exit codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var b strings.Builder
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(section, -1) {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", row[1], roff(strings.ReplaceAll(row[2], "`", "")))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// paragraphs converts the text of a help: paragraphs are filled, and indented lines stay as
// they are.
func paragraphs(text string) string {
	var out []string
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			out = append(out, ".PP")
		}
		fixed := false
		for line := range strings.SplitSeq(block, "\n") {
			if indented := strings.HasPrefix(line, " "); indented != fixed {
				fixed = indented
				out = append(out, map[bool]string{true: ".RS 2\n.nf", false: ".fi\n.RE"}[fixed])
			}
			out = append(out, roff(line))
		}
		if fixed {
			out = append(out, ".fi\n.RE")
		}
	}
	return strings.Join(out, "\n")
}

func preformatted(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = roff(line)
	}
	return strings.Join(lines, "\n")
}

// roff escapes a text, which must not be understood as a request of roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func lowerFirst(s string) string {
	if len(s) < 2 || s[1] >= 'A' && s[1] <= 'Z' {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
