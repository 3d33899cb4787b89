package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cli/terminal"
)

// Lines of the help are as long as the terminal is wide, within these bounds: shorter ones leave flags
// no space, longer ones are hard to read. Without a terminal they have the maximum.
const (
	minHelpWidth = 80
	maxHelpWidth = 120
)

// Help returns the function that prints the help of a command. Flags with the annotation groupBy are in
// the group that is its value; other flags are in the group before them.
func Help(groupBy string) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, _ []string) {
		out := cmd.OutOrStdout()
		width := terminal.Detect(out).Width
		if width == 0 {
			width = maxHelpWidth
		}
		_, _ = io.WriteString(out, helpText(cmd, groupBy, min(max(width, minHelpWidth), maxHelpWidth)))
	}
}

// helpText returns what cobra prints as the help, but wrapped. Only examples, which users copy, and
// words that are too long exceed the width.
func helpText(cmd *cobra.Command, groupBy string, width int) string {
	// Not a template: text/template keeps every method of every type in the binary.
	var b strings.Builder
	section := func(title string, lines ...string) {
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, line := range lines {
			b.WriteString(wrapIndented(line, width))
		}
	}
	description := cmd.Long
	if description == "" {
		description = cmd.Short
	}
	b.WriteString(wrapText(strings.TrimSpace(description), width))
	var use []string
	if cmd.Runnable() {
		use = append(use, "  "+cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		use = append(use, "  "+cmd.CommandPath()+" [command]")
	}
	section("Usage", use...)
	if len(cmd.Aliases) > 0 {
		section("Aliases", "  "+cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range cmd.Groups() {
		section(strings.TrimSuffix(group.Title, ":"), commandLines(cmd, group.ID)...)
	}
	if rest := commandLines(cmd, ""); len(rest) > 0 {
		section("Available Commands", rest...)
	}
	b.WriteString(flagText(cmd.LocalFlags(), groupBy, width))
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nGlobal Flags:\n%s", cmd.InheritedFlags().FlagUsagesWrapped(width))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n" + wrapText(fmt.Sprintf("Use %q for more information about a command.",
			cmd.CommandPath()+" [command] --help"), width))
	}
	return b.String()
}

// commandLines returns the lines of the subcommands of a group.
func commandLines(cmd *cobra.Command, group string) (lines []string) {
	for _, sub := range cmd.Commands() {
		if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
			lines = append(lines, fmt.Sprintf("  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short))
		}
	}
	return lines
}

// flagText returns the flags in their groups.
func flagText(flags *pflag.FlagSet, groupBy string, width int) string {
	var b strings.Builder
	title, group := "Flags", &pflag.FlagSet{SortFlags: false}
	flush := func() {
		if group.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", title, group.FlagUsagesWrapped(width))
		}
		group = &pflag.FlagSet{SortFlags: false}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if of := f.Annotations[groupBy]; len(of) > 0 && of[0] != title {
			flush()
			title = of[0]
		}
		group.AddFlag(f)
	})
	flush()
	return b.String()
}

// wrapText wraps the paragraphs of a text. Indented lines stay lines.
func wrapText(text string, width int) string {
	var b strings.Builder
	paragraph := ""
	flush := func() {
		if paragraph != "" {
			b.WriteString(strings.Join(terminal.Wrap(paragraph, width), "\n") + "\n")
		}
		paragraph = ""
	}
	for _, line := range strings.Split(text, "\n") {
		switch {
		case line == "":
			flush()
			b.WriteByte('\n')
		case line[0] == ' ' || line[0] == '\t':
			flush()
			b.WriteString(wrapIndented(line, width))
		default:
			paragraph += " " + line
		}
	}
	flush()
	return b.String()
}

// wrapIndented wraps one line below its indentation, or below its second column where it has one.
func wrapIndented(line string, width int) string {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if name, text, found := strings.Cut(line[indent:], "  "); found {
		indent += len(name) + 2 + len(text) - len(strings.TrimLeft(text, " "))
	}
	if len(line) <= width || indent > width/2 {
		return line + "\n"
	}
	return line[:indent] + strings.Join(terminal.Wrap(line[indent:], width-indent),
		"\n"+strings.Repeat(" ", indent)) + "\n"
}
