package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/cli/manifestfile"
	"github.com/podstead/podstead/cli/terminal"
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
		Short: "Validate manifests without a daemon",
		Long: `Validate manifests as the daemon does, without a daemon.

Each error is one line on standard error: file, line, field, problem and remedy. The
exit code is 1 if there are errors, otherwise 0. A directory is read as the daemon
reads it: .yaml, .yml and .json files, without hidden and backup files and without
subdirectories. - reads standard input.

Pods that depend on each other in a cycle (annotation podstead.io/depends-on) are an error.
With a directory, a dependency that is in none of the given files is a warning, and so is a
ConfigMap, a Secret or a PersistentVolumeClaim that a pod requires, and the storage class of
a claim of which there is no PersistentVolume either. Further warnings are keys that a
ConfigMap or Secret does not have, a subPath that is none of their files, two pods that need
the same port of the host, and the entries of a directory that are not read.`,
		Example: `  # Validate all manifests of a directory
  podstead validate /etc/pods

  # Print a pod with all defaults filled in
  podstead validate -o yaml web.yaml

  # Validate generated manifests
  helm template x | podstead validate -`,
		Args: func(_ *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return errors.New("no manifests given; specify files or directories, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, paths []string) error { return runValidate(cmd, o, paths) },
	}
	f := cmd.Flags()
	f.StringVar(&o.mode, "manifest-validation", string(manifest.ModeStrict),
		"how to treat unknown and duplicate fields: strict, warn or ignore")
	f.StringVar(&o.node, "hostname-override", "", "node `name` that pod names end with (default: the hostname)")
	f.StringVarP(&o.output, "output", "o", "", "output format: yaml prints the pods with all defaults filled in")
	f.String("api-socket", DefaultSocket, "has no effect: validate does not contact the daemon")
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
			return fmt.Errorf("failed to get the hostname: %w; set it with --hostname-override", err)
		}
	}
	v := validator{loader: manifest.NewLoader(strings.ToLower(o.node), mode), owners: map[string]string{},
		objects: map[manifest.ObjectRef]declared{}}
	for _, p := range paths {
		v.checkIgnored(p)
		if err := manifestfile.Each(cmd.Context(), p, cmd.InOrStdin(), v.unit); err != nil {
			return err
		}
	}
	complete := slices.ContainsFunc(paths, isDirectory)
	v.checkDependencies(complete)
	v.checkHostPorts()
	v.checkKeys()
	v.checkSubPaths()
	if complete {
		v.checkReferences()
		v.checkStorageClasses()
	}
	return v.report(cmd, o.output)
}

// validator collects the results of all given files.
type validator struct {
	loader *manifest.Loader
	files  int
	pods   []*v1.Pod
	// names are those of pods, as namespace/name in the manifests.
	names  []string
	faults manifest.Faults
	// owners is the first file of each namespace/name. The daemon does not accept
	// two files with one pod name either.
	owners map[string]string
	// objects are the declared objects other than pods.
	objects map[manifest.ObjectRef]declared
}

// declared is an object and the first file that declares it.
type declared struct {
	file   string
	object *manifest.Object
}

func (v *validator) unit(name string, data []byte, fault *manifest.Fault) error {
	v.files++
	if fault != nil {
		v.faults = append(v.faults, *fault)
		return nil
	}
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
				Problem: "duplicate pod name, also used in " + owner, Remedy: "rename one of the pods",
			})
			continue
		}
		v.owners[full] = name
		v.names = append(v.names, full)
		v.pods = append(v.pods, d.Pod)
	}
	return nil
}

// object records an object. A second object of the same name with other contents is an
// error, as it is for the daemon.
func (v *validator) object(file string, object *manifest.Object) {
	ref := object.Ref()
	first, twice := v.objects[ref]
	if !twice {
		v.objects[ref] = declared{file: file, object: object}
		return
	}
	if first.object.Digest != object.Digest {
		v.faults = append(v.faults, manifest.Fault{
			Unit: file, Object: ref.String(), Path: "metadata.name",
			Problem: "already declared with different contents in " + first.file,
			Remedy:  "change the name or namespace, or remove one of the two",
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
		return &ExitError{Code: ExitFailed}
	}
	if v.files == 0 {
		return &ExitError{Code: ExitFailed,
			Err: errors.New("no manifests found; manifests in a directory must end in .yaml, .yml or .json")}
	}
	if output == "" {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s in %s: valid\n", v.summary(), terminal.Count(v.files, "file"))
		return err
	}
	return nil
}

// summary returns the number of pods and other objects in words.
func (v *validator) summary() string {
	if len(v.objects) == 0 {
		return terminal.Count(len(v.pods), "pod")
	}
	return terminal.Count(len(v.pods), "pod") + " and " + terminal.Count(len(v.objects), "other object")
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
			return fmt.Errorf("failed to print pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}
