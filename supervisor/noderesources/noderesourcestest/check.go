package noderesourcestest

import (
	"fmt"
	"reflect"

	"github.com/podstead/podstead/supervisor/noderesources"
)

// verbs are the optional interfaces by their first method.
var verbs = map[string]reflect.Type{
	"Queue": reflect.TypeFor[noderesources.Queuer](), "Reserve": reflect.TypeFor[noderesources.Reserver](),
	"Prepare": reflect.TypeFor[noderesources.Preparer](), "Contribute": reflect.TypeFor[noderesources.Contributor](),
	"Unprepare": reflect.TypeFor[noderesources.Unpreparer](), "Release": reflect.TypeFor[noderesources.Releaser](),
	"Forget": reflect.TypeFor[noderesources.Forgetter](), "Retain": reflect.TypeFor[noderesources.Retainer](),
	"Changed": reflect.TypeFor[noderesources.Changer](), "Resize": reflect.TypeFor[noderesources.Resizer](),
	"Status": reflect.TypeFor[noderesources.Reporter](), "Found": reflect.TypeFor[noderesources.Finder](),
}

// CheckMethods returns an error if a resource has a method with the name of an optional interface and does not
// implement that: it would never be called.
func CheckMethods(r noderesources.Resource) error {
	of := reflect.TypeOf(r)
	for name, verb := range verbs {
		if _, has := of.MethodByName(name); has && !of.Implements(verb) {
			return fmt.Errorf("the method %s of %s (%s) is not that of %s", name, r.Name(), of, verb)
		}
	}
	return nil
}
