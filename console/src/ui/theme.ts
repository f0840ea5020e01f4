import { useSyncExternalStore } from 'react'

export type Theme = 'light' | 'dark'

const key = 'plinth-theme'
const system = matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()

/** Returns the theme that the user has chosen or, by default, the system's theme. */
function currentTheme(): Theme {
  const chosen = localStorage.getItem(key)
  if (chosen === 'light' || chosen === 'dark') return chosen
  return system.matches ? 'dark' : 'light'
}

/** Applies the current theme to the page and notifies all listeners. */
export function applyTheme(): void {
  document.documentElement.dataset.theme = currentTheme()
  for (const listener of listeners) listener()
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(key, theme)
  applyTheme()
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export const useTheme = () => useSyncExternalStore(subscribe, currentTheme)

system.addEventListener('change', applyTheme)
