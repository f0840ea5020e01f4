import { Type } from 'typebox'
import { documentedRules } from './partial-schema.ts'
import type { FieldError } from './problems/problem.ts'

/** A pattern that excludes control characters and lone surrogates. */
export const noControls = '^(?:[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$'

/** Like `noControls`, but allows line breaks and tabs. */
export const lines = noControls.replace('\\u0000-\\u001f', '\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f')

/**
 * Returns the OpenAPI version of `noControls`. Patterns in the OpenAPI document are Unicode-aware, so surrogates cannot
 * occur, and use only syntax that RE2, Python, Java and Rust accept. With a minimum length, the text must not consist
 * only of white space.
 */
const documented = (minLength: number) => {
  const allowed = '[^\\x00-\\x1f\\x7f-\\x9f]'
  return documentedRules({
    pattern: minLength > 0 ? `^${allowed}*[^\\x00-\\x20\\x7f-\\xa0]${allowed}*$` : `^${allowed}*$`,
  })
}

/** The OpenAPI version of `lines`. */
export const documentedLines: ReturnType<typeof documentedRules> = documentedRules({
  pattern: '^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$',
})

/** Returns the schema for a single line of text with length limits. */
export const Line = (minLength: number, maxLength: number, about: { description?: string; examples?: string[] } = {}) =>
  Type.String({ minLength, maxLength, pattern: noControls, ...documented(minLength), ...about })

/** Returns an error unless the text is an absolute URL; `http/ssrf-guard.ts` checks the URL's target. */
export const urlErrors = (field: string, url: string): FieldError[] =>
  URL.canParse(url) ? [] : [{ field, message: 'is not a valid URL' }]

/** Text without NUL, which PostgreSQL cannot store, and without lone surrogates, which UTF-8 cannot encode. */
const storableText = /^(?:[^\0\ud800-\udfff]|[\ud800-\udbff][\udc00-\udfff])*$/
export const isStorableText = (value: unknown) => storableText.test(String(value))
