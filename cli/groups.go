package cli

import "github.com/spf13/cobra"

// commandGroups are the groups of commands in the help of the program, in its order. A test finds
// a command that is in none.
var commandGroups = []struct {
	title    string
	commands []string
}{
	{"Change pods", []string{"apply", "auto-update", "create", "delete", "edit", "restart", "rollout", "set"}},
	{"See pods and the node", []string{"describe", "events", "get", "logs", "stats", "status", "top", "wait"}},
	{"Work in containers", []string{"attach", "cp", "debug", "exec", "port-forward"}},
	{"Write manifests", []string{"convert", "diff", "explain", "validate"}},
	{"Manage the node", []string{"check", "cluster", "images", "kubeconfig", "run", "volumes"}},
	{"Other commands", []string{"completion", "help", "version"}},
}

// groupCommands assigns the commands of the root command to their groups.
func groupCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		group := &cobra.Group{ID: g.title, Title: g.title + ":"}
		for _, name := range g.commands {
			for _, cmd := range root.Commands() {
				if cmd.Name() == name {
					cmd.GroupID = group.ID
				}
			}
			switch name {
			case "help":
				root.SetHelpCommandGroupID(group.ID)
			case "completion":
				root.SetCompletionCommandGroupID(group.ID)
			}
		}
		root.AddGroup(group)
	}
}
