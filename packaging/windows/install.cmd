@echo off
rem Installs Safelight for the user who starts this; "install.cmd uninstall" removes it. installer.py says what is done.
rem Untested on Windows: see README.md.
setlocal
set "UV=%~dp0uv.exe"
if exist "%UV%" goto found
set "UV=uv"
where /q uv && goto found
echo Safelight needs uv, which fetches Python and the libraries. winget installs it now.
winget install --id astral-sh.uv --exact --accept-source-agreements --accept-package-agreements
rem This window still has the PATH from before.
set "UV=%LOCALAPPDATA%\Microsoft\WinGet\Links\uv.exe"
if exist "%UV%" goto found
echo uv could not be installed. Install it by hand, then start this again in a new window.
pause
exit /b 1

:found
"%UV%" run --no-project --no-config --python 3.12 "%~dp0installer.py" --uv "%UV%" %*
set "CODE=%ERRORLEVEL%"
pause
if not "%CODE%"=="0" exit /b %CODE%
if /i not "%~1"=="uninstall" exit /b 0
rem The folder that this file lies in goes last, and only where it is the installed one.
if /i not "%~dp0"=="%LOCALAPPDATA%\Programs\Safelight\" exit /b 0
cd /d "%TEMP%"
(rmdir /s /q "%LOCALAPPDATA%\Programs\Safelight" & exit /b 0)
