import type { TObject, TSchema } from 'typebox'
import { inputValidator } from '../http/policies/body-parsing.ts'
import { fromValidation } from '../http/problems/framework-errors.ts'
import type { OwnFields } from '../oauth/pages/invitation-page.ts'
import { choicesOf, columnType } from '../resources/column-types.ts'
import type { ExtendedUsers } from './extended-users.ts'
import { type UserRowsOptions, userRows } from './user-rows.ts'

/**
 * Returns the fields that invited users may fill in themselves: the text and date-time fields in `own`, except
 * enumerations.
 */
export function ownFields(options: UserRowsOptions, { collection, own }: ExtendedUsers): OwnFields {
  const { declaration } = collection
  const { body, kinds } = declaration
  const schemaOf = (name: string) => body.properties[name] as TSchema & { maxLength?: number }
  const names = own.filter((name) => {
    const kind = kinds[name]
    return (kind === 'text' || kind === 'exact' || kind === 'instant') && choicesOf(schemaOf(name)) === undefined
  })
  const properties = Object.fromEntries(names.map((name) => [name, schemaOf(name)]))
  const check = inputValidator({ ...body, required: [], properties } as unknown as TObject, 'body')
  const { change } = userRows(options, declaration)
  return {
    fields: names.map((name) => ({ name, label: labelOf(name), maxLength: schemaOf(name).maxLength })),
    read: (texts) => {
      const values: Record<string, unknown> = Object.fromEntries(
        Object.entries(texts).filter(([name, text]) => names.includes(name) && text.trim() !== ''),
      )
      const result = check(values)
      if ('error' in result) {
        const { errors = [] } = fromValidation(result.error, 'body')
        return { error: errors.map(({ field, message }) => `${labelOf(field)} ${message}.`).join(' ') }
      }
      for (const [name, value] of Object.entries(values)) {
        const { normalize } = columnType(kinds[name] as 'text')
        values[name] = normalize ? normalize(value) : value
      }
      return { values }
    },
    store: (tx, userId, values) => {
      const caller = { clientId: 'invitation', subject: String(userId) }
      return Object.keys(values).length === 0 ? Promise.resolve() : change({ tx, caller }, userId, values)
    },
  }
}

/** Returns a label for a field: `First language` for `firstLanguage`. */
function labelOf(name: string): string {
  const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return `${words[0]?.toUpperCase() ?? ''}${words.slice(1)}`
}
