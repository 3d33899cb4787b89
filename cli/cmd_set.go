package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/manifest/edit"
)

func setCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Set specific features on objects",
		Long:  `Change a field of a pod in its manifest.`,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(setImageCommand())
	return cmd
}

func setImageCommand() *cobra.Command {
	var o editOptions
	var namespace string
	cmd := &cobra.Command{
		Use:   "image POD CONTAINER=IMAGE...",
		Short: "Update the image of a pod",
		Long: `Change the images of containers and init containers in the manifest of a pod, and
show the difference. Nothing else of the manifest changes. The daemon then replaces
the pod; podstead rollout undo returns to its previous revision.

* as the container means all of them.`,
		Example: `  # Run another image in container main of pod web
  podstead set image web main=registry.example.com/web:1.5 --wait`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(podArgs(args)) < 2 {
				return errors.New("a pod and CONTAINER=IMAGE are required")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runSetImage(cmd, o, namespace, podArgs(args)) },
	}
	o.addFlags(cmd, "wait until the pod runs the image and is ready")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "",
		"`namespace` of the pod; required if pods in several namespaces have this name")
	cmd.ValidArgsFunction = completeFirst(completePods)
	return cmd
}

func runSetImage(cmd *cobra.Command, o editOptions, namespace string, args []string) error {
	images := map[string]string{}
	for _, arg := range args[1:] {
		container, image, ok := strings.Cut(arg, "=")
		if !ok || container == "" || image == "" {
			return usageError(fmt.Errorf("%q: must be CONTAINER=IMAGE", arg))
		}
		if _, err := reference.ParseNormalizedNamed(image); err != nil {
			return usageError(fmt.Errorf("%q is not a valid image (%w): write it as HOST/REPOSITORY:TAG, in lower case except "+
				"for the tag", image, err))
		}
		images[container] = image
	}
	e, err := openManifests(cmd, o)
	if err != nil {
		return err
	}
	ref, found, err := e.findDocument(objectName{kind: objects.PodKind(), name: objects.TrimPodPrefix(args[0])}, namespace)
	if err != nil {
		return err
	}
	value, err := withImages(found.Value, images)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	doc, err := edit.New(value)
	if err != nil {
		return err
	}
	change, err := e.set.Merge(doc)
	if err != nil {
		return err
	}
	if err := e.finish(true, change); err != nil {
		return err
	}
	return e.await()
}

// withImages returns a copy of a decoded pod with other images, by the names of the containers;
// "*" is all of them.
func withImages(pod map[string]any, images map[string]string) (map[string]any, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	var changed map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&changed); err != nil {
		return nil, err
	}
	spec, _ := changed["spec"].(map[string]any)
	var names []string
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, item := range containers {
			container, ok := item.(map[string]any)
			if !ok {
				continue
			}
			name, _ := container["name"].(string)
			names = append(names, name)
			if image, ok := images[name]; ok {
				container["image"] = image
			} else if image, ok := images["*"]; ok {
				container["image"] = image
			}
		}
	}
	for name := range images {
		if name != "*" && !slices.Contains(names, name) {
			return nil, fmt.Errorf("container %q not found; containers: %s", name, strings.Join(names, ", "))
		}
	}
	return changed, nil
}
