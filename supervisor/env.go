package supervisor

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// resolveEnv expands the variables of a container in order: each sees those
// before it. A later one of the same name wins and keeps the place of the first.
func resolveEnv(c *v1.Container) []cri.EnvVar {
	env := make([]cri.EnvVar, 0, len(c.Env))
	values := make(map[string]string, len(c.Env))
	index := make(map[string]int, len(c.Env))
	for i := range c.Env {
		name, value := c.Env[i].Name, cri.Expand(c.Env[i].Value, values)
		values[name] = value
		if at, ok := index[name]; ok {
			env[at].Value = value
			continue
		}
		index[name] = len(env)
		env = append(env, cri.EnvVar{Name: name, Value: value})
	}
	return env
}
