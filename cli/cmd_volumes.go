package cli

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

func volumesCommand() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:   "volumes",
		Short: "List or delete the volumes of PersistentVolumeClaims",
		Long: `List the volumes of PersistentVolumeClaims.

A claim gets its volume when a pod first uses it: a PersistentVolume, a directory of its
storage class, or a directory of its own below the root directory. The volume outlives the
pod, and the manifest that declares the claim unless its reclaim policy is Delete.

ENFORCED says whether a quota of the file system enforces the size. USED is what the volume
contains, after ">" if it is too large to count. CAPACITY is that of the file system that it
is on, within the quota, or the one that the PersistentVolume declares if it is not measured.

On a node that has joined a cluster, the claims that pods of the API server use here are
listed too, with the SOURCE "api". STATE is Waiting while a pod cannot use the claim, and
MESSAGE says why. "podstead get volumes -o json" has all of this.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listVolumes(cmd, client.New(socket)) },
	}
	socketFlag(cmd.PersistentFlags(), &socket)
	cmd.AddCommand(&cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List the volumes, as volumes alone does",
		Args:  cobra.NoArgs,
		RunE:  cmd.RunE,
	})
	cmd.AddCommand(&cobra.Command{
		Use: "rm [NAMESPACE/]CLAIM...", Aliases: []string{"remove", "delete"},
		Short: "Delete the volume of a claim with all its data",
		Long: `Delete the volume of a claim with all its data.

A volume that is used by a pod is not deleted. Of a PersistentVolume that a manifest
declares the data stays: it becomes available to other claims. A claim of the cluster is
deleted with kubectl. The namespace defaults to "default".`,
		Example: "  # Delete the volume of claim data in namespace apps\n  podstead volumes rm apps/data",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := removeVolume(cmd, client.New(socket), name); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return cmd
}

func listVolumes(cmd *cobra.Command, c *client.Client) error {
	list, err := c.Volumes(cmd.Context(), true)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		cmd.PrintErrln("no volumes found")
		return nil
	}
	return volumeTable(list).Print(cmd.OutOrStdout())
}

// volumeTable has the columns that tell the claims of a cluster apart only if there are any.
func volumeTable(list []api.PersistentVolume) terminal.Table {
	t := terminal.Table{Header: []string{"NAMESPACE", "CLAIM", "REQUESTED", "ENFORCED", "USED", "CAPACITY", "VOLUME",
		"CLASS", "USED BY", "PATH"}}
	joined := slices.ContainsFunc(list, func(v api.PersistentVolume) bool { return objects.OfCluster(&v) })
	if joined {
		t.Header = append(t.Header, objects.VolumeOriginHeader...)
	}
	for i := range list {
		v := &list[i]
		used, capacity := usedOf(v.Usage)
		if v.Usage == nil {
			capacity = terminal.OrNone(v.Capacity)
		}
		row := []string{v.Namespace, v.Name, terminal.OrNone(v.Requested), enforcedOf(v.Usage), used, capacity,
			terminal.OrNone(v.Volume), terminal.OrNone(v.StorageClass), terminal.OrNone(strings.Join(v.Pods, ",")),
			terminal.OrNone(v.Path)}
		if joined {
			row = append(row, objects.VolumeOriginCells(v)...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// usedOf returns what a volume contains and how much its file system can.
func usedOf(u *api.VolumeUsage) (used, capacity string) {
	if u == nil {
		return terminal.OrNone(""), terminal.OrNone("")
	}
	if u.Used == nil {
		return terminal.OrNone(""), objects.FormatSize(u.Capacity)
	}
	used = objects.FormatSize(*u.Used)
	if u.Incomplete {
		used = ">" + used
	}
	return used, objects.FormatSize(u.Capacity)
}

// enforcedOf returns whether a quota enforces the size of a volume.
func enforcedOf(u *api.VolumeUsage) string {
	switch {
	case u == nil:
		return terminal.OrNone("")
	case u.Limit > 0:
		return "yes"
	}
	return "no"
}

func removeVolume(cmd *cobra.Command, c *client.Client, name string) error {
	namespace, claim, ok := strings.Cut(name, "/")
	if !ok {
		namespace, claim = "default", name
	}
	list, err := c.Volumes(cmd.Context(), false)
	if err != nil {
		return err
	}
	declared := slices.ContainsFunc(list, func(v api.PersistentVolume) bool {
		return v.Namespace == namespace && v.Name == claim && v.Declared
	})
	if err := c.RemoveVolume(cmd.Context(), namespace, claim); err != nil {
		var status *client.StatusError
		if errors.As(err, &status) && status.Code == http.StatusNotFound {
			return fmt.Errorf("volume of claim %q not found; list them with podstead volumes", namespace+"/"+claim)
		}
		return err
	}
	done := "deleted"
	if declared {
		done = "unbound; its data stays"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "volume %s/%s %s\n", namespace, claim, done)
	return err
}
