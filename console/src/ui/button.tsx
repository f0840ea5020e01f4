import type { ReactNode } from 'react'
import { Button as AriaButton, type ButtonProps as AriaButtonProps } from 'react-aria-components/Button'

interface ButtonProps extends Omit<AriaButtonProps, 'className' | 'children' | 'style'> {
  children: ReactNode
  /** `primary`: the main action of the page or dialog. `danger`: an action that cannot be undone. `plain`: without a border. */
  look?: 'primary' | 'danger' | 'plain'
  isCompact?: boolean
}

export function Button({ look, isCompact, ...props }: ButtonProps) {
  return <AriaButton {...props} className={['button', look, isCompact && 'compact'].filter(Boolean).join(' ')} />
}

export function IconButton({ label, children, ...props }: ButtonProps & { label: string }) {
  return (
    <Button {...props} look="plain" aria-label={label}>
      <span aria-hidden="true">{children}</span>
    </Button>
  )
}
