package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/cmd/podstead/cli/manifestfile"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
	"github.com/podstead/podstead/manifest"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	mode   string
	node   string
	output string
}

func validateCommand() *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate FILE|DIR|-...",
		Short: "Check manifests without a daemon",
		Long: `Check manifests as the daemon would, without one.

Each fault is one line on standard error: file, line, field, what is wrong and
what would be right. The exit code is 1 if there is any, else 0. A folder is
read as the daemon reads it: .yaml, .yml and .json, no hidden or backup files,
no folders below. - is standard input.`,
		Example: `  podstead validate /etc/pods
  podstead validate -o yaml web.yaml     # with every default filled in
  helm template x | podstead validate -`,
		Args: func(_ *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return errors.New("nothing to validate: name files or folders of manifests, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, paths []string) error { return runValidate(cmd, o, paths) },
	}
	f := cmd.Flags()
	f.StringVar(&o.mode, "manifest-validation", string(manifest.ModeStrict), "what becomes of unknown and duplicate fields: strict, warn or ignore")
	f.StringVar(&o.node, "hostname-override", "", "node `name` that pod names end with (default: this host's name)")
	f.StringVarP(&o.output, "output", "o", "", "yaml prints the pods with every default filled in")
	f.String("api-socket", DefaultSocket, "unused: validate needs no daemon")
	return cmd
}

func runValidate(cmd *cobra.Command, o validateOptions, paths []string) error {
	mode, err := manifest.ParseMode(o.mode)
	if err != nil {
		return usageError(fmt.Errorf("--manifest-validation: %w", err))
	}
	if o.output != "" && o.output != "yaml" {
		return usageError(fmt.Errorf("--output %q: must be yaml", o.output))
	}
	if o.node == "" {
		if o.node, err = os.Hostname(); err != nil {
			return fmt.Errorf("cannot tell this host's name: %w; give one with --hostname-override", err)
		}
	}
	v := validator{loader: manifest.NewLoader(strings.ToLower(o.node), mode), owners: map[string]string{}, objects: map[manifest.ObjectRef]declared{}}
	for _, p := range paths {
		if err := v.path(cmd, p); err != nil {
			return err
		}
	}
	return v.report(cmd, o.output)
}

// validator collects over all the files that were named.
type validator struct {
	loader *manifest.Loader
	files  int
	pods   []*v1.Pod
	faults manifest.Faults
	// owners is the first file of each namespace/name: two files with one
	// name are refused by the daemon too.
	owners map[string]string
	// objects are what stands beside the pods.
	objects map[manifest.ObjectRef]declared
}

// declared is where an object was found first, and what it holds.
type declared struct{ file, digest string }

func (v *validator) path(cmd *cobra.Command, path string) error {
	if path == "-" {
		data, err := manifestfile.Read(cmd.InOrStdin())
		if err != nil {
			return fmt.Errorf("cannot read standard input: %w", err)
		}
		v.unit(path, data)
		return nil
	}
	fi, err := os.Stat(path)
	if err != nil {
		return manifestfile.ReadError(path, err)
	}
	if !fi.IsDir() {
		return v.file(path)
	}
	files, err := manifestfile.InDirectory(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := v.file(file); err != nil {
			return err
		}
	}
	return nil
}

func (v *validator) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := manifestfile.Read(f)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	v.unit(path, data)
	return nil
}

func (v *validator) unit(name string, data []byte) {
	v.files++
	content, faults := v.loader.Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: name, Data: data})
	v.faults = append(v.faults, faults...)
	for i := range content.Objects {
		v.object(name, &content.Objects[i])
	}
	for _, d := range content.Documents {
		full := d.Pod.Namespace + "/" + manifest.BaseName(d.Pod)
		if owner, taken := v.owners[full]; taken {
			v.faults = append(v.faults, manifest.Fault{
				Unit: name, Object: "Pod " + full, Path: "metadata.name",
				Problem: "a pod of this name stands in " + owner + " too", Remedy: "give one of them another name",
			})
			continue
		}
		v.owners[full] = name
		v.pods = append(v.pods, d.Pod)
	}
}

// object notes an object. Another one of its name that is not the same is a
// fault, as to the daemon.
func (v *validator) object(file string, object *manifest.Object) {
	ref := object.Ref()
	first, twice := v.objects[ref]
	if !twice {
		v.objects[ref] = declared{file: file, digest: object.Digest}
		return
	}
	if first.digest != object.Digest {
		v.faults = append(v.faults, manifest.Fault{
			Unit: file, Object: ref.String(), Path: "metadata.name",
			Problem: "is declared with other contents in " + first.file, Remedy: "give this one another name or namespace, or remove one of the two",
		})
	}
}

func (v *validator) report(cmd *cobra.Command, output string) error {
	for _, f := range v.faults {
		if f.Warning {
			cmd.PrintErrln("warning: " + f.Error())
		} else {
			cmd.PrintErrln(f.Error())
		}
	}
	if output == "yaml" {
		if err := printYAML(cmd.OutOrStdout(), v.pods); err != nil {
			return err
		}
	}
	if v.faults.Fatal() {
		return &ExitError{Code: 1}
	}
	if v.files == 0 {
		return &ExitError{Code: 1, Err: errors.New("no manifest there: a folder's manifests end in .yaml, .yml or .json")}
	}
	if output == "" {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s in %s: valid\n", v.found(), terminal.Count(v.files, "file"))
		return err
	}
	return nil
}

// found is what the files hold, in words.
func (v *validator) found() string {
	if len(v.objects) == 0 {
		return terminal.Count(len(v.pods), "pod")
	}
	return terminal.Count(len(v.pods), "pod") + " and " + terminal.Count(len(v.objects), "object") + " beside"
}

func printYAML(w io.Writer, pods []*v1.Pod) error {
	for i, p := range pods {
		if i > 0 {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return err
			}
		}
		text, err := yaml.Marshal(p)
		if err != nil {
			return fmt.Errorf("cannot print pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}
