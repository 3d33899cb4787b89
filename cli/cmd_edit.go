package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
)

func editCommand() *cobra.Command {
	var o editOptions
	var namespace string
	cmd := &cobra.Command{
		Use:   "edit [TYPE] NAME | TYPE/NAME",
		Short: "Edit a resource on the node",
		Long: `Edit the document of a pod or another object in an editor: $KUBE_EDITOR, $VISUAL,
$EDITOR or vi. It is validated when the editor ends, and written into its manifest;
with a fault the editor opens again. Save it without a change to cancel.`,
		Example: `  # Edit pod web, and wait until it runs the change
  podstead edit web --wait`,
		Args: func(_ *cobra.Command, args []string) error {
			if names, err := parseNames(args); err != nil || len(names) != 1 {
				return cmp.Or(err, errors.New("one name is required"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runEdit(cmd, o, namespace, args) },
	}
	o.addFlags(cmd, "wait until the pod runs the change and is ready")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "",
		"`namespace` of the object; required if several namespaces have one of this name")
	return cmd
}

func runEdit(cmd *cobra.Command, o editOptions, namespace string, args []string) error {
	names, err := parseNames(args)
	if err != nil {
		return err
	}
	e, err := openManifests(cmd, o)
	if err != nil {
		return err
	}
	ref, found, err := e.findDocument(names[0], namespace)
	if err != nil {
		return err
	}
	err = e.editText(ref, found.Text, func(doc edit.Document) error {
		change, err := e.set.Replace(doc)
		if err != nil {
			return err
		}
		return e.finish(true, change)
	})
	if err != nil {
		return err
	}
	return e.await()
}

// findDocument returns the document of the manifest directory that declares an object, or why it
// cannot be changed there.
func (e *manifestEditor) findDocument(n objectName, namespace string) (ref manifest.ObjectRef, found edit.Found,
	err error) {
	if ref, err = e.find(n, namespace); err != nil {
		return ref, found, err
	}
	found, err = e.set.Find(ref)
	return ref, found, err
}

// faultPrefix begins the lines that tell the user what is wrong with the text in the editor.
const faultPrefix = "# podstead: "

// editText lets the user edit the text of a document until it is valid, and uses that. It does nothing if the user has
// cancelled: the text is saved as it was shown. After an error an edited text stays in its file, which the error names.
func (e *manifestEditor) editText(ref manifest.ObjectRef, original []byte, use func(edit.Document) error) (err error) {
	f, err := os.CreateTemp("", "podstead-edit-*.yaml")
	if err != nil {
		return err
	}
	text := original
	var faults []byte
	defer func() { err = e.endEdit(f.Name(), err, faults, original) }()
	if err := f.Close(); err != nil {
		return err
	}
	var problem error
	for {
		if err := os.WriteFile(f.Name(), slices.Concat(faults, text), 0o600); err != nil {
			return err
		}
		if err := e.runEditor(f.Name()); err != nil {
			return err
		}
		saved, fault := manifest.ReadFile(f.Name())
		if fault != nil {
			return *fault
		}
		edited := withoutLines(saved, faults)
		if problem != nil && bytes.Equal(edited, text) {
			return fmt.Errorf("edit cancelled, no valid changes were saved: %w", problem)
		}
		if bytes.Equal(edited, text) || len(bytes.TrimSpace(edited)) == 0 {
			_, err := fmt.Fprintln(e.cmd.OutOrStdout(), "Edit cancelled, no changes made.")
			return err
		}
		var doc *edit.Document
		if doc, problem = e.parseEdited(ref, edited); problem == nil {
			return use(*doc)
		}
		text, faults = edited, faultLines(problem)
	}
}

// endEdit removes the file with the edited text, or returns the error with its path if the text would be lost.
func (e *manifestEditor) endEdit(path string, err error, faults, original []byte) error {
	saved, fault := manifest.ReadFile(path)
	edited := bytes.TrimSpace(withoutLines(saved, faults))
	if _, gone := os.Lstat(path); err == nil || gone != nil ||
		fault == nil && (len(edited) == 0 || bytes.Equal(edited, bytes.TrimSpace(original))) {
		_ = os.Remove(path)
		return err
	}
	if Silent(err) { // what was printed is not the path
		e.cmd.PrintErrln("the edited text is kept in " + path)
		return err
	}
	return fmt.Errorf("%w; the edited text is kept in %s", err, path)
}

// parseEdited returns the document in an edited text, or what is wrong with it.
func (e *manifestEditor) parseEdited(ref manifest.ObjectRef, text []byte) (*edit.Document, error) {
	docs, faults := edit.Documents("the edited text", text)
	if !faults.Fatal() {
		_, faults = e.loader.Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: "the edited text", Data: text})
	}
	switch {
	case faults.Fatal():
		return nil, faults
	case len(docs) != 1:
		return nil, fmt.Errorf("the text has %d objects; it must have one", len(docs))
	case docs[0].Ref != ref:
		return nil, fmt.Errorf("the object is now %s; it must stay %s, since another name would be another object",
			docs[0].Ref, ref)
	}
	if !bytes.Contains(append([]byte("\n"), text...), []byte("\n---")) {
		docs[0].Text = append(bytes.TrimRight(text, "\n"), '\n') // with the comments around it
	}
	return &docs[0], nil
}

// faultLines returns what is wrong with a text as lines of comments.
func faultLines(problem error) (lines []byte) {
	for line := range strings.Lines(problem.Error()) {
		lines = append(lines, faultPrefix+strings.TrimSuffix(line, "\n")+"\n"...)
	}
	return lines
}

// withoutLines removes the lines that the user was shown in addition to the document.
func withoutLines(text, shown []byte) (rest []byte) {
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(faultPrefix)) || !bytes.Contains(shown, line) {
			rest = append(rest, line...)
		}
	}
	return rest
}

// runEditor runs the user's editor on a file.
func (e *manifestEditor) runEditor(path string) error {
	editor := cmp.Or(os.Getenv("KUBE_EDITOR"), os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	// The variables may contain arguments, so that a shell runs them.
	c := exec.CommandContext(e.cmd.Context(), "/bin/sh", "-c", editor+` "$1"`, "sh", path)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("the editor %q failed: %w; set another one with EDITOR", editor, err)
	}
	return nil
}
