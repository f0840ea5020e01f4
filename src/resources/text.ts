import { Type } from 'typebox'

/** No control characters and no halves of surrogate pairs; the length counts after trimming. */
export const noControls = '^(?:[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])*$'

/** The same with line breaks and tabs. */
export const lines = noControls.replace('\\u0000-\\u001f', '\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f')

/** One line of text of a bounded length. */
export const Line = (minLength: number, maxLength: number, description?: string) =>
  Type.String({ minLength, maxLength, pattern: noControls, ...(description && { description }) })
