package cli

import (
	"fmt"
	"io"
	"maps"

	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
)

// printChange prints what changes in a document, in the unified format. A new document is only
// shown if new is true. The values of a Secret are not shown.
func printChange(out io.Writer, c *edit.Change, whole bool) error {
	if c.Verb() == "unchanged" || c.Before == nil && !whole || c.After == nil {
		return nil
	}
	before, after := string(c.Before), string(c.After)
	if c.Ref.Kind == manifest.KindSecret {
		var err error
		if before, err = maskedSecret(c.Before, c.After, "*** (before)"); err != nil {
			return err
		}
		if after, err = maskedSecret(c.After, c.Before, "*** (after)"); err != nil {
			return err
		}
	}
	name := c.Ref.String() + " in " + c.File
	text, err := unified(before, after, name+" (now)", name+" (new)")
	if err != nil {
		return err
	}
	return printDiff(out, text)
}

// maskedSecret returns the document of a Secret without its values. Those that differ from the
// other document are replaced by changed.
func maskedSecret(text, other []byte, changed string) (string, error) {
	if text == nil {
		return "", nil
	}
	var secret, compared map[string]any
	if err := yaml.Unmarshal(text, &secret); err != nil {
		return "", fmt.Errorf("failed to print: %w", err)
	}
	if err := yaml.Unmarshal(other, &compared); err != nil {
		return "", fmt.Errorf("failed to print: %w", err)
	}
	shown := maps.Clone(secret)
	for _, field := range []string{"data", "stringData"} {
		values, ok := secret[field].(map[string]any)
		if !ok {
			continue
		}
		old, _ := compared[field].(map[string]any)
		masked := map[string]any{}
		for key, value := range values {
			masked[key] = "***"
			if before, there := old[key]; there && before != value {
				masked[key] = changed
			}
		}
		shown[field] = masked
	}
	if metadata, ok := secret["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "annotations") // kubectl puts a copy of the Secret into one
		shown["metadata"] = metadata
	}
	masked, err := yaml.Marshal(shown)
	return string(masked), err
}

// printDiff prints a difference in the unified format, in colors on a terminal.
func printDiff(out io.Writer, text string) error {
	if text == "" {
		return nil
	}
	s := terminal.Detect(out)
	for _, line := range terminal.Lines(text) {
		h := terminal.Color("")
		switch line[0] {
		case '+':
			h = terminal.Green
		case '-':
			h = terminal.Red
		}
		if _, err := fmt.Fprintln(out, s.Paint(terminal.Visible(line), h)); err != nil {
			return err
		}
	}
	return nil
}
