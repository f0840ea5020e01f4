import { Type } from 'typebox'

/** No control characters; the length counts after trimming. */
export const noControls = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$'

/** One line of text of a bounded length. */
export const Line = (minLength: number, maxLength: number, description?: string) =>
  Type.String({ minLength, maxLength, pattern: noControls, ...(description && { description }) })
