import { Type } from 'typebox'
import { documentedRules } from './partial-schema.ts'
import type { FieldError } from './problems/problem.ts'

/** No control characters and no halves of surrogate pairs; the length counts after trimming. */
export const noControls = '^(?:[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$'

/** The same with line breaks and tabs. */
export const lines = noControls.replace('\\u0000-\\u001f', '\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f')

/**
 * The same in the document, whose patterns are read as Unicode: there are no halves. They are written so that RE2, Python,
 * Java and Rust read them too. Something must be left to trim.
 */
const documented = (minLength: number) => {
  const allowed = '[^\\x00-\\x1f\\x7f-\\x9f]'
  return documentedRules({
    pattern: minLength > 0 ? `^${allowed}*[^\\x00-\\x20\\x7f-\\xa0]${allowed}*$` : `^${allowed}*$`,
  })
}

/** `lines` as the document says it. */
export const documentedLines: ReturnType<typeof documentedRules> = documentedRules({
  pattern: '^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$',
})

/** One line of text of a bounded length. */
export const Line = (minLength: number, maxLength: number, about: { description?: string; examples?: string[] } = {}) =>
  Type.String({ minLength, maxLength, pattern: noControls, ...documented(minLength), ...about })

/** What is wrong with the spelling of an absolute URL; where it leads is judged by `http/guard.ts`. */
export const urlErrors = (field: string, url: string): FieldError[] =>
  URL.canParse(url) ? [] : [{ field, message: 'is not a valid URL' }]
