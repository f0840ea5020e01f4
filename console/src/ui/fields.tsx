import { type HTMLInputTypeAttribute, type ReactNode, useId } from 'react'
import { ApiError } from '../api/client.ts'

interface FieldProps {
  label: string
  hint?: ReactNode
  /** The error message for the current value. */
  error?: string | undefined
  isRequired?: boolean
  isDisabled?: boolean
  /** Overrides the ids and places the control without a visible label. */
  isLabelHidden?: boolean
}

/** A label, hint and error message around a control. `children` gets the attributes that connect them. */
function Field({
  label,
  hint,
  error,
  isLabelHidden,
  isRequired,
  children,
}: FieldProps & { children: (ids: Control) => ReactNode }) {
  const id = useId()
  const described = [hint !== undefined && `${id}-hint`, error !== undefined && `${id}-error`].filter(Boolean).join(' ')
  const control = { id, 'aria-describedby': described || undefined, 'aria-invalid': error !== undefined || undefined }
  return (
    <div className="field">
      <label htmlFor={id} className={isLabelHidden ? 'visually-hidden' : undefined}>
        {label}
        {isRequired && <span aria-hidden="true"> *</span>}
      </label>
      {children({ ...control, required: isRequired })}
      {hint !== undefined && (
        <span className="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {error !== undefined && (
        <span className="error" id={`${id}-error`}>
          {error}
        </span>
      )}
    </div>
  )
}

interface Control {
  id: string
  required?: boolean | undefined
  'aria-describedby': string | undefined
  'aria-invalid': true | undefined
}

interface TextFieldProps extends FieldProps {
  value: string
  onChange: (value: string) => void
  type?: HTMLInputTypeAttribute
  placeholder?: string
  /** The number of lines; if set, the field is a text area. */
  rows?: number
  autoComplete?: string
  min?: number | string
  max?: number | string
  step?: number | string
}

export function TextField({
  value,
  onChange,
  type = 'text',
  rows,
  isDisabled,
  placeholder,
  autoComplete = 'off',
  min,
  max,
  step,
  ...field
}: TextFieldProps) {
  const common = { value, placeholder, autoComplete, disabled: isDisabled }
  return (
    <Field {...field}>
      {(control) =>
        rows === undefined ? (
          <input
            {...control}
            {...common}
            {...{ min, max, step }}
            type={type}
            onChange={(event) => onChange(event.target.value)}
          />
        ) : (
          <textarea {...control} {...common} rows={rows} onChange={(event) => onChange(event.target.value)} />
        )
      }
    </Field>
  )
}

interface SelectFieldProps<Value extends string> extends FieldProps {
  value: Value
  onChange: (value: Value) => void
  options: readonly { value: Value; label: string }[]
}

export function SelectField<Value extends string>({
  value,
  onChange,
  options,
  isDisabled,
  ...field
}: SelectFieldProps<Value>) {
  return (
    <Field {...field}>
      {(control) => (
        <select
          {...control}
          value={value}
          disabled={isDisabled}
          onChange={(event) => onChange(event.target.value as Value)}
        >
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

export function CheckField({
  label,
  hint,
  isSelected,
  onChange,
  isDisabled,
}: FieldProps & { isSelected: boolean; onChange: (isSelected: boolean) => void }) {
  const id = useId()
  return (
    <div className="check">
      <input
        id={id}
        type="checkbox"
        checked={isSelected}
        disabled={isDisabled}
        onChange={(event) => onChange(event.target.checked)}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
      />
      <div>
        <label htmlFor={id}>{label}</label>
        {hint !== undefined && (
          <div className="quiet small" id={`${id}-hint`}>
            {hint}
          </div>
        )}
      </div>
    </div>
  )
}

/**
 * Returns the service's error message for a field. `field` is its plain name, whereas errors may identify it by a JSON
 * pointer.
 */
export function fieldError(error: unknown, field: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined
  return error.fields.find((one) => one.field.replace(/^\//, '') === field)?.message
}
